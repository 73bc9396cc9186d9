//! The shape of a trace: its kinds of spans, one node for each service, kind and name below the same parent node.
//!
//! Nodes are numbered in order of first appearance, and a parent always comes before its children.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::trace::SpanKind;

/// A tree of kinds of spans.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    symbols: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, Symbol>,
    nodes: Vec<Key>,
    by_key: HashMap<Key, Node>,
    /// Whether it was read from a file that has no addresses of calls.
    pub(super) has_older_calls: bool,
}

/// One kind of span: its number in a [`Shape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node(usize);

/// An interned text of a [`Shape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Symbol(usize);

/// The properties that identify a kind of span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The kind of its parent; `None` right below the trigger.
    pub(crate) parent: Option<Node>,
    /// The service that sends it.
    pub(crate) service: Symbol,
    /// Its side of a call.
    pub(crate) kind: SpanKind,
    /// Its name, [folded](fold).
    pub(crate) name: Symbol,
    /// The address that it calls, if it is a call and says so: two calls with one name are not one kind.
    pub(crate) peer: Option<Symbol>,
}

impl Node {
    /// The index, for lists parallel to the shape.
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

impl Shape {
    /// The number of kinds.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Every kind, parents before children.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.nodes.len()).map(Node)
    }

    /// Returns what identifies this kind.
    pub(crate) fn key(&self, node: Node) -> Key {
        self.nodes[node.0]
    }

    /// Returns a shape with the same texts and no kinds.
    pub(crate) fn without_nodes(&self) -> Self {
        Self { symbols: self.symbols.clone(), by_text: self.by_text.clone(), ..Self::default() }
    }

    /// The text behind a symbol.
    pub(crate) fn text(&self, symbol: Symbol) -> &Arc<str> {
        &self.symbols[symbol.0]
    }

    /// Interns a text.
    pub(crate) fn symbol(&mut self, text: &str) -> Symbol {
        if let Some(known) = self.by_text.get(text) {
            return *known;
        }
        let (text, new): (Arc<str>, _) = (text.into(), Symbol(self.symbols.len()));
        self.symbols.push(Arc::clone(&text));
        self.by_text.insert(text, new);
        new
    }

    /// Returns the kind with this key, added if it is new.
    pub(crate) fn node(&mut self, key: Key) -> Node {
        *self.by_key.entry(key).or_insert_with(|| {
            self.nodes.push(key);
            Node(self.nodes.len() - 1)
        })
    }

    /// Returns the key of the kind that this one is known as: one that an older file has without the address that it calls.
    pub(crate) fn known_as(&self, key: Key) -> Key {
        let without = Key { peer: None, ..key };
        let is_older = key.peer.is_some() && self.has_older_calls && !self.by_key.contains_key(&key);
        if is_older && self.by_key.contains_key(&without) { without } else { key }
    }

    /// Finds the kind with this key.
    pub(crate) fn find(&self, key: Key) -> Option<Node> {
        self.by_key.get(&key).copied()
    }

    /// Returns the kind here that `other` calls `node`, added if it is new and there is room within `limit`.
    ///
    /// `parent` is its parent's kind here.
    pub(crate) fn adopt(
        &mut self,
        other: &Self,
        node: Node,
        parent: Option<Node>,
        limit: usize,
    ) -> Option<Node> {
        let theirs = other.key(node);
        let key = Key {
            parent,
            service: self.symbol(other.text(theirs.service)),
            kind: theirs.kind,
            name: self.symbol(other.text(theirs.name)),
            peer: theirs.peer.map(|peer| self.symbol(other.text(peer))),
        };
        self.find(key).or_else(|| (self.len() < limit).then(|| self.node(key)))
    }
}

/// Replaces what differs from call to call in a span's name: numbers and ids become `#`.
///
/// Names should not hold such parts, yet many do (`GET /users/123`), and then no run would look like the last one.
pub(crate) fn fold(name: &str) -> Cow<'_, str> {
    folded(name, Folding::NumbersAndIds)
}

/// Replaces ids by `#` and leaves shorter numbers as they are.
pub(crate) fn fold_ids(text: &str) -> Cow<'_, str> {
    folded(text, Folding::Ids)
}

/// Minimum number of hexadecimal digits that are folded as one id.
const SHORTEST_ID: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folding {
    NumbersAndIds,
    Ids,
}

fn folded(text: &str, folding: Folding) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Cow::Borrowed(text);
    }
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let run = rest.bytes().take_while(|byte| byte.is_ascii_hexdigit() || *byte == b'-').count();
        let (part, after) = rest.split_at(if run > 0 { run } else { first.len_utf8() });
        rest = after;
        if run >= SHORTEST_ID && part.bytes().any(|byte| byte.is_ascii_digit()) {
            folded.push('#');
        } else if folding == Folding::NumbersAndIds {
            fold_numbers(part, &mut folded);
        } else {
            folded.push_str(part);
        }
    }
    Cow::Owned(folded)
}

fn fold_numbers(part: &str, folded: &mut String) {
    let mut in_number = false;
    for letter in part.chars() {
        let is_digit = letter.is_ascii_digit();
        match (is_digit, in_number) {
            (false, _) => folded.push(letter),
            (true, false) => folded.push('#'),
            (true, true) => {}
        }
        in_number = is_digit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ids_are_folded() {
        for (name, folded) in [
            ("GET /users", "GET /users"),
            ("GET /users/123/orders/4", "GET /users/#/orders/#"),
            ("job 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "job #"),
            ("cafe 1", "cafe #"),
            ("größe 12 é", "größe # é"),
            ("e5-f6 abcdefgh-1", "e#-f# abcdefgh-#"),
            ("", ""),
        ] {
            assert_eq!(fold(name), folded);
        }
    }

    #[test]
    fn numbers_that_are_no_ids_can_be_kept() {
        for (text, folded) in [
            ("status 200 of 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "status 200 of #"),
            ("v1.2.3", "v1.2.3"),
            ("cafebabe", "cafebabe"),
        ] {
            assert_eq!(fold_ids(text), folded);
        }
    }

    #[test]
    fn a_long_text_is_folded_in_one_pass() {
        let text = format!("{} 1", "a".repeat(4 << 20));
        assert_eq!(fold(&text).len(), text.len());
    }
}
