//! Evaluation of selectors on a trace.
//!
//! A selector is compiled once: names are resolved, patterns compiled, cheap conditions moved to the front.
//! Evaluating a span then allocates nothing.

mod filter;

use super::ast::{Chain, Combinator, Pseudo, Selector, Step};
use super::field::{Field, TraceIndex};
use crate::budget::{Budget, BudgetError};
use crate::trace::Trace;
pub(crate) use filter::{Filter, compile_condition, ordered};

/// Returns the positions of the selected spans, in the selector's order, each once.
pub fn select(selector: &Selector, trace: &Trace, budget: &Budget) -> Result<Vec<usize>, BudgetError> {
    Query::new(selector, true).run(&TraceIndex::new(trace, budget))
}

/// A compiled selector.
#[derive(Debug)]
pub(crate) struct Query {
    chains: Vec<CompiledChain>,
    growth: Monotonicity,
    growth_of_first: Monotonicity,
}

/// How a selection changes while spans arrive; the least of its parts counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Monotonicity {
    /// Spans may also leave it.
    Changes,
    /// Spans are only added, while no parent is missing. Where one is, the tree shows its children elsewhere until it
    /// arrives.
    WithParents,
    /// Spans are only added.
    Only,
}

#[derive(Debug)]
struct CompiledChain {
    first: CompiledStep,
    rest: Vec<(Combinator, CompiledStep)>,
}

#[derive(Debug)]
pub(crate) struct CompiledStep {
    condition: Filter,
    position: Option<Position>,
    pseudos: Vec<PseudoTest>,
}

#[derive(Debug, Clone, Copy)]
enum Position {
    First,
    Last,
    Nth(u64),
}

/// A condition on the position of a span in the tree.
#[derive(Debug)]
enum PseudoTest {
    Root,
    Leaf,
    Has(Combinator, Query),
    Not(Query),
}

impl Query {
    pub(crate) fn new(selector: &Selector, aliases: bool) -> Self {
        let chains: Vec<_> = selector.chains.iter().map(|chain| compile_chain(chain, aliases)).collect();
        let growth = least(chains.iter().map(|chain| chain.growth(false)));
        let growth_of_first = match chains.as_slice() {
            [] => Monotonicity::Only,
            [one] => one.growth(true),
            // A span of an earlier member comes before those of the others, however late it arrives.
            _ => Monotonicity::Changes,
        };
        Self { chains, growth, growth_of_first }
    }

    /// Whether spans that arrive later can only add to its selection in this trace.
    pub(crate) fn grows_only(&self, trace: &Trace) -> bool {
        self.growth.holds_for(trace)
    }

    /// Whether its first span stays the first: spans that arrive later come after it.
    pub(crate) fn keeps_first(&self, trace: &Trace) -> bool {
        self.growth_of_first.holds_for(trace)
    }

    /// Visits every field that it reads.
    pub(crate) fn each_field<'q>(&'q self, visit: &mut impl FnMut(&'q Field)) {
        for chain in &self.chains {
            for step in std::iter::once(&chain.first).chain(chain.rest.iter().map(|(_, step)| step)) {
                step.condition.each_field(visit);
                for pseudo in &step.pseudos {
                    if let PseudoTest::Has(_, query) | PseudoTest::Not(query) = pseudo {
                        query.each_field(visit);
                    }
                }
            }
        }
    }

    pub(crate) fn run(&self, scene: &TraceIndex<'_>) -> Result<Vec<usize>, BudgetError> {
        let found = self.find(scene);
        scene.budget.check().map(|()| found)
    }

    /// Returns the spans found before the budget is used up.
    fn find(&self, scene: &TraceIndex<'_>) -> Vec<usize> {
        let length = scene.trace.spans().len();
        let _ = scene.budget.work(length / 8);
        match self.chains.as_slice() {
            [] => (0..length).collect(),
            [one] => one.run(scene),
            many => {
                let mut seen = vec![false; length];
                let mut found = Vec::new();
                let chains = many.iter().take_while(|_| scene.budget.work(8 + length / 64).is_ok());
                for at in chains.flat_map(|chain| chain.run(scene)) {
                    if !std::mem::replace(&mut seen[at], true) {
                        found.push(at);
                    }
                }
                found
            }
        }
    }
}

fn compile_chain(chain: &Chain, aliases: bool) -> CompiledChain {
    CompiledChain {
        first: compile_step(&chain.first, aliases),
        rest: chain
            .rest
            .iter()
            .map(|(combinator, step)| (*combinator, compile_step(step, aliases)))
            .collect(),
    }
}

fn compile_step(step: &Step, aliases: bool) -> CompiledStep {
    let mut compiled = CompiledStep {
        condition: compile_condition(&step.condition, aliases),
        position: None,
        pseudos: Vec::new(),
    };
    for pseudo in &step.pseudos {
        match pseudo {
            Pseudo::First => compiled.position = Some(Position::First),
            Pseudo::Last => compiled.position = Some(Position::Last),
            Pseudo::Nth(n) => compiled.position = Some(Position::Nth(*n)),
            Pseudo::Root => compiled.pseudos.push(PseudoTest::Root),
            Pseudo::Leaf => compiled.pseudos.push(PseudoTest::Leaf),
            Pseudo::Has { combinator, selector } => {
                compiled.pseudos.push(PseudoTest::Has(*combinator, Query::new(selector, aliases)));
            }
            Pseudo::Not(selector) => compiled.pseudos.push(PseudoTest::Not(Query::new(selector, aliases))),
        }
    }
    compiled
}

impl Monotonicity {
    fn of(combinator: Combinator) -> Self {
        match combinator {
            Combinator::Descendant => Self::Only,
            Combinator::Child | Combinator::Sibling => Self::WithParents,
            Combinator::Next => Self::Changes,
        }
    }

    fn holds_for(self, trace: &Trace) -> bool {
        match self {
            Self::Changes => false,
            Self::WithParents => !trace.lacks_parents(),
            Self::Only => true,
        }
    }
}

fn least(parts: impl Iterator<Item = Monotonicity>) -> Monotonicity {
    parts.min().unwrap_or(Monotonicity::Only)
}

impl CompiledChain {
    /// `of_first` asks for the first span that it selects: `:first` at its end changes nothing then.
    fn growth(&self, of_first: bool) -> Monotonicity {
        let steps = std::iter::once(&self.first).chain(self.rest.iter().map(|(_, step)| step));
        let last = self.rest.len();
        let of_steps = steps.enumerate().map(|(at, step)| {
            let is_fixed = match step.position {
                None => true,
                Some(Position::First) => of_first && at == last,
                Some(Position::Last | Position::Nth(_)) => false,
            };
            if is_fixed { step.growth() } else { Monotonicity::Changes }
        });
        least(of_steps.chain(self.rest.iter().map(|(combinator, _)| Monotonicity::of(*combinator))))
    }

    fn run(&self, scene: &TraceIndex<'_>) -> Vec<usize> {
        let length = scene.trace.spans().len();
        let mut found = self.first.matches(scene, &self.first.gates(scene), 0..length);
        if let Some(position) = self.first.position {
            found = position.of(&found).into_iter().collect();
        }
        for (combinator, step) in &self.rest {
            if found.is_empty() || scene.budget.check().is_err() {
                break;
            }
            found = step.from(scene, *combinator, &found);
        }
        found
    }

    /// Marks the spans that can begin the chain: from each of them the other steps can be matched.
    fn beginnings(&self, scene: &TraceIndex<'_>) -> Vec<bool> {
        let length = scene.trace.spans().len();
        let narrow = |step: &CompiledStep, allowed: &[bool]| {
            let mut marks = vec![false; length];
            for at in step.matches(scene, &step.gates(scene), 0..length) {
                marks[at] = allowed[at];
            }
            marks
        };
        let mut allowed = vec![true; length];
        for (combinator, step) in self.rest.iter().rev() {
            allowed = related(scene.trace, *combinator, &narrow(step, &allowed));
        }
        narrow(&self.first, &allowed)
    }
}

/// Marks the spans that have a marked span below, directly below, or later beside them.
fn related(trace: &Trace, combinator: Combinator, marks: &[bool]) -> Vec<bool> {
    let mut found = vec![false; marks.len()];
    for at in (0..marks.len()).filter(|at| marks[*at]) {
        match combinator {
            Combinator::Descendant => {
                let mut up = trace.parent(at);
                while let Some(parent) = up.filter(|parent| !found[*parent]) {
                    found[parent] = true;
                    up = trace.parent(parent);
                }
            }
            Combinator::Child => {
                if let Some(parent) = trace.parent(at) {
                    found[parent] = true;
                }
            }
            Combinator::Sibling | Combinator::Next => {}
        }
    }
    if matches!(combinator, Combinator::Sibling | Combinator::Next) {
        let parents = (0..marks.len()).map(Some).chain([None]);
        for parent in parents {
            let family = children(trace, parent);
            let mut later = false;
            for at in family.into_iter().rev() {
                found[at] = later;
                later = marks[at] || (later && combinator == Combinator::Sibling);
            }
        }
    }
    found
}

fn children(trace: &Trace, parent: Option<usize>) -> Vec<usize> {
    match parent {
        Some(parent) => trace.children(parent).collect(),
        None => trace.roots().collect(),
    }
}

impl Position {
    fn of(self, found: &[usize]) -> Option<usize> {
        match self {
            Self::First => found.first(),
            Self::Last => found.last(),
            Self::Nth(n) => usize::try_from(n).ok()?.checked_sub(1).and_then(|at| found.get(at)),
        }
        .copied()
    }
}

impl CompiledStep {
    /// Returns the growth of its matches, without regard to `:first` and the like.
    fn growth(&self) -> Monotonicity {
        least(self.pseudos.iter().map(|pseudo| match pseudo {
            PseudoTest::Root | PseudoTest::Leaf | PseudoTest::Not(_) => Monotonicity::Changes,
            PseudoTest::Has(combinator, query) => query.growth.min(Monotonicity::of(*combinator)),
        }))
    }

    /// Returns, for each condition on the position, the spans that it accepts.
    fn gates(&self, scene: &TraceIndex<'_>) -> Vec<Vec<bool>> {
        self.pseudos.iter().map(|pseudo| pseudo.marks(scene)).collect()
    }

    /// Returns the spans in `range` that match without regard to `:first` and the like, in order.
    fn matches(
        &self,
        scene: &TraceIndex<'_>,
        gates: &[Vec<bool>],
        range: std::ops::Range<usize>,
    ) -> Vec<usize> {
        // Charges for the marks of that many spans.
        if scene.budget.work(1 + range.len() / 8 + gates.len() * range.len() / 8).is_err() {
            return Vec::new();
        }
        let mut found = self.condition.find(scene, range);
        if !gates.is_empty() {
            found.retain(|at| gates.iter().all(|gate| gate[*at]));
        }
        found
    }

    /// Takes the step from each of the spans `from`; a position like `:first` counts separately for each of them.
    fn from(&self, scene: &TraceIndex<'_>, combinator: Combinator, from: &[usize]) -> Vec<usize> {
        let trace = scene.trace;
        let matches = self.reachable(scene, combinator, from);
        let mut seen = vec![false; trace.spans().len()];
        let mut found = Vec::new();
        let mut add = |at: usize| {
            if !std::mem::replace(&mut seen[at], true) {
                found.push(at);
            }
        };
        let between = |range: std::ops::Range<usize>| {
            let start = matches.partition_point(|at| *at < range.start);
            let end = matches.partition_point(|at| *at < range.end);
            &matches[start..end]
        };
        let mut covered = 0..0;
        for &at in from {
            if scene.budget.work(1).is_err() {
                break;
            }
            let below = trace.descendants(at);
            match (combinator, self.position) {
                // Descendants of a descendant were found already.
                (Combinator::Descendant, None) if covered.contains(&at) => {}
                (Combinator::Descendant, None) => {
                    covered = below.clone();
                    between(below).iter().copied().for_each(&mut add);
                }
                (Combinator::Descendant, Some(position)) => {
                    if let Some(at) = position.of(between(below)) {
                        add(at);
                    }
                }
                (Combinator::Child, position) => {
                    let near: Vec<_> =
                        trace.children(at).filter(|child| matches.binary_search(child).is_ok()).collect();
                    let _ = scene.budget.work(near.len());
                    pick(&near, position).iter().copied().for_each(&mut add);
                }
                (Combinator::Sibling, position) => {
                    let family = family(trace, at);
                    let after = between(trace.descendants(at).end..family.end);
                    let _ = scene.budget.work(after.len());
                    let near: Vec<_> = after
                        .iter()
                        .copied()
                        .filter(|other| trace.parent(*other) == trace.parent(at))
                        .collect();
                    pick(&near, position).iter().copied().for_each(&mut add);
                }
                (Combinator::Next, position) => {
                    let next = trace.descendants(at).end;
                    let is_next = next < family(trace, at).end && matches.binary_search(&next).is_ok();
                    let near: Vec<_> = is_next.then_some(next).into_iter().collect();
                    pick(&near, position).iter().copied().for_each(&mut add);
                }
            }
        }
        found
    }

    /// Returns the matching spans in the range that covers all spans the step can lead to, in order.
    fn reachable(&self, scene: &TraceIndex<'_>, combinator: Combinator, from: &[usize]) -> Vec<usize> {
        let range = match combinator {
            Combinator::Descendant | Combinator::Child => {
                let start = from.iter().min().map_or(0, |at| at + 1);
                let end = from.iter().map(|at| scene.trace.descendants(*at).end).max().unwrap_or(0);
                start..end.max(start)
            }
            Combinator::Sibling | Combinator::Next => 0..scene.trace.spans().len(),
        };
        self.matches(scene, &self.gates(scene), range)
    }
}

/// Returns the range that contains the siblings of a span.
fn family(trace: &Trace, at: usize) -> std::ops::Range<usize> {
    match trace.parent(at) {
        Some(parent) => trace.descendants(parent),
        None => 0..trace.spans().len(),
    }
}

fn pick(near: &[usize], position: Option<Position>) -> Vec<usize> {
    match position {
        None => near.to_vec(),
        Some(position) => position.of(near).into_iter().collect(),
    }
}

impl PseudoTest {
    fn marks(&self, scene: &TraceIndex<'_>) -> Vec<bool> {
        let trace = scene.trace;
        let length = trace.spans().len();
        match self {
            Self::Root => (0..length).map(|at| trace.parent(at).is_none()).collect(),
            Self::Leaf => (0..length).map(|at| trace.descendants(at).is_empty()).collect(),
            Self::Not(query) => {
                let mut marks = vec![true; length];
                for at in query.find(scene) {
                    marks[at] = false;
                }
                marks
            }
            Self::Has(combinator, query) => {
                let mut marks = vec![false; length];
                for chain in &query.chains {
                    if scene.budget.work(length).is_err() {
                        break;
                    }
                    for (mark, begins) in marks.iter_mut().zip(chain.beginnings(scene)) {
                        *mark |= begins;
                    }
                }
                related(trace, *combinator, &marks)
            }
        }
    }
}
