//! The cost of a regular expression, estimated from its syntax tree before it is compiled.

use regex_syntax::ast::{
    Ast, ClassSet, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind, RepetitionKind, RepetitionRange,
};

/// States of a Unicode class like `\pL`.
const UNICODE_CLASS: u64 = 100;
/// The number of Unicode characters, as the complement of a small class has.
const CHARACTERS: u64 = 0x11_0000;

/// The costs of a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outline {
    /// States of the compiled expression, with repetitions expanded.
    pub(super) states: u64,
    /// Characters whose other cases are looked up (`(?i)` and classes).
    pub(super) folded: u64,
    /// Whether it has capture groups.
    pub(super) has_groups: bool,
}

impl Outline {
    pub(super) fn of(ast: &Ast) -> Self {
        let mut survey = Survey::default();
        let states = survey.states(ast);
        Self { states, folded: survey.folded, has_groups: survey.has_groups }
    }
}

#[derive(Debug, Default)]
struct Survey {
    /// Whether case was ignored somewhere to the left. The end of such a group is not tracked.
    folds: bool,
    folded: u64,
    has_groups: bool,
}

impl Survey {
    /// Counts states; the depth of the tree is bounded by the parser.
    fn states(&mut self, ast: &Ast) -> u64 {
        match ast {
            Ast::Empty(_) | Ast::Assertion(_) => 1,
            Ast::Flags(set) => {
                self.flags(&set.flags);
                0
            }
            Ast::Literal(_) => self.characters(1),
            Ast::Dot(_) => 10,
            Ast::ClassUnicode(_) | Ast::ClassPerl(_) => self.class(),
            Ast::ClassBracketed(class) => self.set(&class.kind),
            Ast::Repetition(repetition) => {
                let times = match &repetition.op.kind {
                    RepetitionKind::Range(RepetitionRange::AtLeast(least)) => least.saturating_add(1),
                    RepetitionKind::Range(
                        RepetitionRange::Exactly(most) | RepetitionRange::Bounded(_, most),
                    ) => *most,
                    RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
                };
                self.states(&repetition.ast).saturating_mul(u64::from(times).max(1)).saturating_add(1)
            }
            Ast::Group(group) => {
                match &group.kind {
                    GroupKind::NonCapturing(flags) => self.flags(flags),
                    GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => self.has_groups = true,
                }
                self.states(&group.ast).saturating_add(2)
            }
            Ast::Alternation(all) => self.sum(&all.asts),
            Ast::Concat(all) => self.sum(&all.asts),
        }
    }

    fn sum(&mut self, all: &[Ast]) -> u64 {
        all.iter().fold(1, |sum: u64, ast| sum.saturating_add(self.states(ast)))
    }

    fn flags(&mut self, flags: &Flags) {
        self.folds |= flags.items.iter().any(|item| item.kind == FlagsItemKind::Flag(Flag::CaseInsensitive));
    }

    fn characters(&mut self, count: u64) -> u64 {
        if self.folds {
            self.folded = self.folded.saturating_add(count);
            return 3;
        }
        1
    }

    fn class(&mut self) -> u64 {
        self.characters(CHARACTERS);
        UNICODE_CLASS
    }

    fn set(&mut self, set: &ClassSet) -> u64 {
        match set {
            ClassSet::Item(item) => self.item(item),
            ClassSet::BinaryOp(both) => self.set(&both.lhs).saturating_add(self.set(&both.rhs)),
        }
    }

    fn item(&mut self, item: &ClassSetItem) -> u64 {
        match item {
            ClassSetItem::Empty(_) => 1,
            ClassSetItem::Literal(_) => self.characters(1),
            ClassSetItem::Range(range) => {
                self.characters(u64::from(range.end.c).saturating_sub(u64::from(range.start.c)))
            }
            ClassSetItem::Ascii(_) => self.characters(128),
            ClassSetItem::Unicode(_) | ClassSetItem::Perl(_) => self.class(),
            ClassSetItem::Bracketed(class) => self.set(&class.kind),
            ClassSetItem::Union(union) => {
                union.items.iter().fold(0, |sum: u64, item| sum.saturating_add(self.item(item)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(pattern: &str) -> Outline {
        Outline::of(&regex_syntax::ast::parse::Parser::new().parse(pattern).expect("it is a pattern"))
    }

    #[test]
    fn repetitions_are_written_out_and_classes_are_folded() {
        assert!(outline("(a{99}){900}").states > 89_000);
        assert!(outline("a{4294967295}{4294967295}{4294967295}").states > u64::from(u32::MAX));
        assert!(outline("hello.*world").states < 40);
        assert_eq!(outline(r"\pL").folded, 0);
        assert!(outline(r"(?i)\pL").folded >= CHARACTERS);
        assert!(outline(r"(?i:a)[a-\x{10ffff}]").folded > 1_000_000);
        assert!(outline("(?i)get|post").folded < 10);
        assert!(outline("a(b)").has_groups && !outline("a(?:b)").has_groups);
    }
}
