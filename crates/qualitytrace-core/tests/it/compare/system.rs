//! A random system whose traces can be recorded again and again, and that can be mutated in one place.

use std::collections::HashMap;
use std::sync::Arc;

use qualitytrace_core::compare::Summary;
use qualitytrace_core::id::SpanId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Resource, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

use crate::fixture::{span, trace};
use crate::wait::random::Random;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// One operation: a span in every recording.
#[derive(Debug, Clone)]
struct Node {
    number: u64,
    service: &'static str,
    kind: SpanKind,
    name: Arc<str>,
    attributes: Vec<(String, Value)>,
    /// Nanoseconds in which no child runs.
    own: u64,
    parent: Option<usize>,
}

/// Operations, parents before their children.
#[derive(Debug)]
pub(super) struct System {
    nodes: Vec<Node>,
    next: u64,
}

/// A trace of a system, and the span of each operation by its number.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) trace: Trace,
    pub(super) ids: HashMap<u64, SpanId>,
}

/// What was done to a system.
#[derive(Debug)]
pub(super) enum Mutation {
    Removed { names: Vec<Arc<str>> },
    Added { names: Vec<Arc<str>> },
    Slower { node: u64 },
    Faster { node: u64 },
    Changed { node: u64 },
}

impl Mutation {
    /// The summary of a comparison that finds this and nothing else.
    pub(super) fn expected(&self) -> Summary {
        let none = Summary::default();
        match self {
            Self::Removed { names } => Summary { removed: names.len(), ..none },
            Self::Added { names } => Summary { added: names.len(), ..none },
            Self::Slower { .. } => Summary { slower: 1, ..none },
            Self::Faster { .. } => Summary { faster: 1, ..none },
            Self::Changed { .. } => Summary { changed: 1, ..none },
        }
    }
}

impl System {
    /// A system of up to some dozens of operations, some of which are repeated.
    pub(super) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut system = Self { nodes: Vec::new(), next: 1 };
        system.add(None, &mut random);
        for _ in 0..random.between(3, 12) {
            let parent = random.index(system.nodes.len());
            let first = system.add(Some(parent), &mut random);
            // A loop: the same operation several times, alike or with other attributes.
            let turns = if random.chance(40) { random.between(1, 9) } else { 0 };
            for turn in 0..turns {
                let copy = system.copy(first, parent, &mut random);
                if random.chance(30) {
                    system.nodes[copy].attributes.push(("turn".to_owned(), Value::Int(turn.cast_signed())));
                }
                if random.chance(30) {
                    system.add(Some(copy), &mut random);
                }
            }
        }
        system
    }

    fn add(&mut self, parent: Option<usize>, random: &mut Random) -> usize {
        const SERVICES: [&str; 4] = ["web", "cart", "stock", "mail"];
        const KINDS: [SpanKind; 3] = [SpanKind::Internal, SpanKind::Client, SpanKind::Server];
        const NAMES: [&str; 6] = ["GET /items/17", "SELECT", "work", "publish", "charge", "render"];
        let attributes = (0..random.between(1, 5)).map(|at| {
            let value = match random.index(4) {
                0 => Value::Int(random.between(0, 600).cast_signed()),
                1 => Value::Bool(random.chance(50)),
                2 => Value::Float(f64::from(random.next().to_be_bytes()[0]) / 8.0),
                _ => Value::from(format!("word {}", random.between(0, 9))),
            };
            (format!("app.fact{at}"), value)
        });
        let attributes: Vec<_> = attributes.collect();
        let node = Node {
            number: self.next,
            service: SERVICES[random.index(SERVICES.len())],
            kind: KINDS[random.index(KINDS.len())],
            name: NAMES[random.index(NAMES.len())].into(),
            attributes,
            own: own(random),
            parent,
        };
        self.put(node)
    }

    fn copy(&mut self, of: usize, parent: usize, random: &mut Random) -> usize {
        let node =
            Node { number: self.next, own: own(random), parent: Some(parent), ..self.nodes[of].clone() };
        self.put(node)
    }

    fn put(&mut self, node: Node) -> usize {
        self.next += 1;
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn children(&self, of: usize) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(move |at| self.nodes[*at].parent == Some(of))
    }

    /// Records a trace: other ids, other times, and own times that differ by up to one percent.
    pub(super) fn record(&self, seed: u64) -> Recording {
        let mut random = Random::new(seed ^ 0x5eed);
        let mut spans = Vec::new();
        let start = 1_700_000_000 * 1_000 * MILLI + random.between(0, 1_000) * MILLI;
        self.lay_out(0, None, start, &mut random, &mut spans);
        let ids = spans
            .iter()
            .map(|(number, span): &(u64, Span)| (*number, span.id.expect("every span has an id")))
            .collect();
        Recording { trace: trace(spans.into_iter().map(|(_, span)| span)), ids }
    }

    /// Lays out an operation and what is below it one after the other, and returns its end.
    fn lay_out(
        &self,
        at: usize,
        parent: Option<SpanId>,
        start: u64,
        random: &mut Random,
        spans: &mut Vec<(u64, Span)>,
    ) -> u64 {
        let node = &self.nodes[at];
        let id = SpanId::from_bytes(random.next().to_be_bytes()).expect("zero is unlikely");
        let own = node.own + random.between(0, node.own / 100 + 1);
        let children: Vec<usize> = self.children(at).collect();
        let part = own / (children.len() as u64 + 1);
        let place = spans.len();
        let resource = [("service.name", Value::from(node.service))].into_iter().collect();
        let mut attributes = node.attributes.clone();
        attributes.push(("thread.id".to_owned(), Value::Int(random.between(0, 64).cast_signed())));
        attributes.push(("request".to_owned(), Value::from(format!("r-{:016x}", random.next() | 1 << 60))));
        spans.push((
            node.number,
            Span {
                name: node.name.clone(),
                kind: node.kind,
                attributes: attributes.into_iter().collect(),
                resource: Resource { attributes: resource, ..Resource::default() }.into(),
                ..span(1, parent)
            },
        ));
        let mut now = start;
        for child in &children {
            now = self.lay_out(*child, Some(id), now + part, random, spans);
        }
        let end = now + own - part * children.len() as u64;
        let laid = &mut spans[place].1;
        laid.id = Some(id);
        (laid.start, laid.end) = (Timestamp::from_nanos(start), Some(Timestamp::from_nanos(end)));
        end
    }

    /// Drops, adds, slows down, speeds up or changes one operation.
    pub(super) fn mutate(&mut self, seed: u64) -> Mutation {
        let mut random = Random::new(seed ^ 0x3a7a);
        let at = 1 + random.index(self.nodes.len() - 1);
        match random.index(5) {
            0 => {
                let gone = self.subtree(at);
                let names = gone.iter().map(|at| self.nodes[*at].name.clone()).collect();
                let time: u64 = gone.iter().map(|at| self.nodes[*at].own).sum();
                // The operation was lost, or only its spans.
                if let Some(parent) = self.nodes[at].parent.filter(|_| random.chance(50)) {
                    self.nodes[parent].own += time;
                }
                self.remove(&gone);
                Mutation::Removed { names }
            }
            1 => {
                let parent = random.index(self.nodes.len());
                let sibling = self.children(parent).next();
                // A further turn of a loop, or something new.
                let new = match sibling.filter(|_| random.chance(50)) {
                    Some(sibling) => self.copy(sibling, parent, &mut random),
                    None => self.add(Some(parent), &mut random),
                };
                let own = self.nodes[new].own;
                // New work, or work that had no span.
                if random.chance(50) && self.nodes[parent].own > own {
                    self.nodes[parent].own -= own;
                }
                Mutation::Added { names: vec![self.nodes[new].name.clone()] }
            }
            2 => {
                self.nodes[at].own = self.nodes[at].own * 3 / 2 + 2 * MILLI;
                Mutation::Slower { node: self.nodes[at].number }
            }
            3 => {
                // The first recording is made before: only what takes long enough can become faster.
                let slow = (1..self.nodes.len()).find(|at| self.nodes[*at].own > 5 * MILLI);
                let Some(at) = slow else {
                    self.nodes[at].own += 20 * MILLI;
                    return Mutation::Slower { node: self.nodes[at].number };
                };
                self.nodes[at].own /= 2;
                Mutation::Faster { node: self.nodes[at].number }
            }
            _ => {
                let node = &mut self.nodes[at];
                match random.index(3) {
                    0 => node.attributes.push(("app.new".to_owned(), Value::Int(1))),
                    1 => drop(node.attributes.remove(0)),
                    _ => node.attributes[0].1 = Value::from("another word"),
                }
                Mutation::Changed { node: node.number }
            }
        }
    }

    fn subtree(&self, of: usize) -> Vec<usize> {
        let mut all = vec![of];
        let mut done = 0;
        while done < all.len() {
            all.extend(self.children(all[done]));
            done += 1;
        }
        all
    }

    fn remove(&mut self, gone: &[usize]) {
        let kept: Vec<usize> = (0..self.nodes.len()).filter(|at| !gone.contains(at)).collect();
        let place = |at: usize| kept.iter().position(|kept| *kept == at);
        let nodes: Vec<Node> = kept
            .iter()
            .map(|at| Node { parent: self.nodes[*at].parent.and_then(place), ..self.nodes[*at].clone() })
            .collect();
        self.nodes = nodes;
    }
}

fn own(random: &mut Random) -> u64 {
    match random.index(3) {
        0 => random.between(20, 900) * MICRO,
        1 => random.between(1_000, 9_000) * MICRO,
        _ => random.between(10, 80) * MILLI,
    }
}
