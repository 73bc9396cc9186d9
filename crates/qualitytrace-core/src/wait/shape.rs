//! The shape of a trace: its kinds of spans, one node for each service, kind and name below the same parent node.
//!
//! Nodes are numbered in order of first appearance, and a parent always comes before its children.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::trace::SpanKind;

/// A tree of kinds of spans.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    symbols: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, Symbol>,
    nodes: Vec<Key>,
    by_key: HashMap<Key, Node>,
}

/// One kind of span: its number in a [`Shape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node(usize);

/// An interned text of a [`Shape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Symbol(usize);

/// The properties that identify a kind of span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The kind of its parent; `None` right below the trigger.
    pub(super) parent: Option<Node>,
    /// The service that sends it.
    pub(super) service: Symbol,
    /// Its side of a call.
    pub(super) kind: SpanKind,
    /// Its name, [folded](fold).
    pub(super) name: Symbol,
}

impl Node {
    /// The index, for lists parallel to the shape.
    pub(super) fn index(self) -> usize {
        self.0
    }
}

impl Shape {
    /// The number of kinds.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Every kind, parents before children.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.nodes.len()).map(Node)
    }

    /// Returns what identifies this kind.
    pub(super) fn key(&self, node: Node) -> Key {
        self.nodes[node.0]
    }

    /// The text behind a symbol.
    pub(super) fn text(&self, symbol: Symbol) -> &Arc<str> {
        &self.symbols[symbol.0]
    }

    /// Interns a text.
    pub(super) fn symbol(&mut self, text: &str) -> Symbol {
        if let Some(known) = self.by_text.get(text) {
            return *known;
        }
        let (text, new): (Arc<str>, _) = (text.into(), Symbol(self.symbols.len()));
        self.symbols.push(Arc::clone(&text));
        self.by_text.insert(text, new);
        new
    }

    /// Returns the kind with this key, added if it is new.
    pub(super) fn node(&mut self, key: Key) -> Node {
        *self.by_key.entry(key).or_insert_with(|| {
            self.nodes.push(key);
            Node(self.nodes.len() - 1)
        })
    }

    /// Finds the kind with this key.
    pub(super) fn find(&self, key: Key) -> Option<Node> {
        self.by_key.get(&key).copied()
    }

    /// Returns the kind here that `other` calls `node`, added if it is new and there is room within `limit`.
    ///
    /// `parent` is its parent's kind here.
    pub(super) fn adopt(
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
        };
        self.find(key).or_else(|| (self.len() < limit).then(|| self.node(key)))
    }
}

/// Replaces what differs from call to call in a span's name: numbers and ids become `#`.
///
/// Names should not hold such parts, yet many do (`GET /users/123`), and then no run would look like the last one.
pub(super) fn fold(name: &str) -> Cow<'_, str> {
    if !name.bytes().any(|byte| byte.is_ascii_digit()) {
        return Cow::Borrowed(name);
    }
    let mut folded = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let id = rest.bytes().take_while(|byte| byte.is_ascii_hexdigit() || *byte == b'-').count();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let has_digit = rest.as_bytes()[..id].iter().any(u8::is_ascii_digit);
        let part = if id >= SHORTEST_ID && has_digit { id } else { digits };
        if part > 0 {
            folded.push('#');
            rest = &rest[part..];
        } else {
            folded.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Cow::Owned(folded)
}

/// Minimum number of hexadecimal digits that are folded as one id.
const SHORTEST_ID: usize = 8;

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
            ("", ""),
        ] {
            assert_eq!(fold(name), folded);
        }
    }
}
