//! The modules of a crate and the paths that each of them names, read from its source files.
//!
//! The files are split into tokens, so comments, texts and documentation never count. Everything under `#[cfg(test)]`
//! is left out. A module that is chosen by a feature is read from its ordinary file.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tree::Tree;

/// Words that begin an item, in which a comma separates parameters.
const ITEMS: &[&str] = &["fn", "impl", "struct", "enum", "trait", "type", "use", "const", "static"];

/// A path as written, with its line: `["crate", "store", "Store"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
}

/// One module of a crate.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The file that holds the module, which is that of its parent if the module is written inline.
    pub(super) file: String,
    /// The names of the modules that it lies in, and its own; empty for the root.
    pub(super) path: Vec<String>,
    /// The paths that it names, in `use` declarations and elsewhere.
    pub(super) imports: Vec<Import>,
    /// What `use` declarations call the things that they import.
    names: BTreeMap<String, Vec<String>>,
}

/// The modules of one crate by their paths; the root has the empty path.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<Vec<String>, Module>);

impl Modules {
    /// Reads the crate whose root is this file (`lib.rs` or `main.rs`).
    pub(super) fn read(tree: &Tree, root: &str) -> Self {
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut modules = Self::default();
        modules.read_file(tree, folder, root, Vec::new());
        modules
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Module> {
        self.0.values()
    }

    /// The modules that a path leads to, seen from the module `from`: the one that it spells out and, if a name on the
    /// way is imported from elsewhere, the one that has it. Paths into other crates lead to none.
    pub(super) fn resolve(&self, from: &Module, path: &[String]) -> Vec<&[String]> {
        let mut reached = Vec::new();
        self.follow(&from.path, path, &mut reached, 0);
        reached
    }

    /// Follows a path from the module `at`; returns the module that it names if it names one.
    fn follow<'a>(
        &'a self,
        at: &[String],
        path: &[String],
        reached: &mut Vec<&'a [String]>,
        depth: usize,
    ) -> Option<&'a [String]> {
        /// How many imports of imports are followed; a longer chain would be a circle of its own.
        const MAX_CHAIN: usize = 8;
        let (mut module, _) = self.0.get_key_value(at)?;
        let mut rest = path;
        // Whether the path has said in which module it begins: before that, a name may come from any crate.
        let mut inside = false;
        while let Some((name, others)) = rest.split_first() {
            let next = match name.as_str() {
                "crate" => Vec::new(),
                "self" => module.clone(),
                "super" => module[..module.len().checked_sub(1)?].to_vec(),
                name => [module.as_slice(), &[name.to_owned()]].concat(),
            };
            if let Some((next, _)) = self.0.get_key_value(&next) {
                module = next;
            } else {
                let imported = self.0.get(module)?.names.get(name);
                match imported.filter(|target| depth < MAX_CHAIN && *target != path) {
                    Some(target) => {
                        if inside {
                            reached.push(module);
                        }
                        let target = self.follow(module, target, reached, depth + 1)?;
                        (module, _) = self.0.get_key_value(target)?;
                    }
                    None if inside => break,
                    None => return None,
                }
            }
            inside = true;
            rest = others;
        }
        reached.push(module);
        rest.is_empty().then_some(module)
    }

    fn read_file(&mut self, tree: &Tree, folder: &str, file: &str, path: Vec<String>) {
        let Some(source) = tree.get(file) else {
            return;
        };
        // A file that is not Rust is the compiler's business.
        if let Ok(tokens) = source.text.parse::<TokenStream>() {
            self.read_module(tree, folder, file, path, tokens);
        }
    }

    fn read_module(&mut self, tree: &Tree, folder: &str, file: &str, path: Vec<String>, tokens: TokenStream) {
        let mut reading =
            Reading { module: Module { file: file.to_owned(), ..Module::default() }, children: Vec::new() };
        if !reading.read(&tokens.into_iter().collect::<Vec<_>>()) {
            return;
        }
        for (name, body) in reading.children {
            let path = [path.as_slice(), &[name]].concat();
            match body {
                Some(body) => self.read_module(tree, folder, file, path, body),
                None => self.read_file(tree, folder, &format!("{folder}/{}.rs", path.join("/")), path),
            }
        }
        self.0.insert(path.clone(), Module { path, ..reading.module });
    }
}

/// A module while its tokens are read.
struct Reading {
    module: Module,
    /// Modules that are declared inside; with their text if they are written inline.
    children: Vec<(String, Option<TokenStream>)>,
}

impl Reading {
    /// Reads the tokens of a module or of a block; false if all of them are for tests only.
    fn read(&mut self, tokens: &[TokenTree]) -> bool {
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                [hash, bang, attribute, ..] if is(hash, '#') && is(bang, '!') && for_tests(attribute) => {
                    return false;
                }
                [hash, attribute, ..] if is(hash, '#') && for_tests(attribute) => {
                    at += 2;
                    at += item_length(&tokens[at..]);
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), end, ..] if word == "mod" => {
                    let body = match end {
                        TokenTree::Group(group) => Some(group.stream()),
                        _ => None,
                    };
                    self.children.push((plain(&name.to_string()), body));
                    at += 3;
                }
                [TokenTree::Ident(word), ..] if word == "use" => {
                    let end =
                        tokens[at..].iter().position(|token| is(token, ';')).unwrap_or(tokens.len() - at);
                    self.read_use(&tokens[at + 1..at + end], &[]);
                    at += end;
                }
                [TokenTree::Ident(_), ..] => at += self.read_path(&tokens[at..]),
                // What follows a dot is a field or a method, and what follows a quote is a lifetime.
                [TokenTree::Punct(mark), TokenTree::Ident(_), ..] if ".'".contains(mark.as_char()) => at += 2,
                // A path that begins with two colons leads to another crate.
                [first, second, TokenTree::Ident(_), ..] if is(first, ':') && is(second, ':') => at += 3,
                [TokenTree::Group(group), ..] => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    self.read(&inner);
                    at += 1;
                }
                _ => at += 1,
            }
        }
        true
    }

    /// Reads a path of two names or more in an expression, a type or a pattern; returns its number of tokens.
    fn read_path(&mut self, tokens: &[TokenTree]) -> usize {
        let mut path = Vec::new();
        let mut length = 0;
        while let Some(TokenTree::Ident(name)) = tokens.get(length) {
            path.push(plain(&name.to_string()));
            length += 1;
            match &tokens[length..] {
                [first, second, TokenTree::Ident(_), ..] if is(first, ':') && is(second, ':') => length += 2,
                _ => break,
            }
        }
        if path.len() > 1 {
            self.module.imports.push(Import { line: line(&tokens[0]), path });
        }
        length
    }

    /// Reads one tree of a `use` declaration, which stands behind `prefix`.
    fn read_use(&mut self, tokens: &[TokenTree], prefix: &[String]) {
        let mut path = prefix.to_vec();
        let mut rest = tokens;
        loop {
            rest = match rest {
                // A leading `::` leads to another crate.
                [first, second, ..] if is(first, ':') && is(second, ':') && path.is_empty() => return,
                [first, second, rest @ ..] if is(first, ':') && is(second, ':') => rest,
                [TokenTree::Ident(word), TokenTree::Ident(alias), ..] if word == "as" => {
                    return self.import(line(&tokens[0]), path, &alias.to_string());
                }
                [TokenTree::Ident(name), rest @ ..] => {
                    path.push(plain(&name.to_string()));
                    rest
                }
                [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    for tree in inner.split(|token| is(token, ',')).filter(|tree| !tree.is_empty()) {
                        self.read_use(tree, &path);
                    }
                    return;
                }
                [star, ..] if is(star, '*') => return self.import(line(&tokens[0]), path, "_"),
                _ => break,
            }
        }
        // `use crate::store::{self}` imports the module.
        if path.len() > 1 {
            path.pop_if(|name| name == "self");
        }
        let name = path.last().cloned().unwrap_or_default();
        self.import(line(&tokens[0]), path, &name);
    }

    fn import(&mut self, line: usize, path: Vec<String>, name: &str) {
        if name != "_" && path.as_slice() != [name] {
            self.module.names.insert(name.to_owned(), path.clone());
        }
        self.module.imports.push(Import { line, path });
    }
}

/// A name without the mark of a raw identifier.
fn plain(name: &str) -> String {
    name.trim_start_matches("r#").to_owned()
}

fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// Whether a token is this mark.
fn is(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// Whether the brackets of an attribute say `cfg(test)`, alone or among other conditions that must all hold.
fn for_tests(attribute: &TokenTree) -> bool {
    let TokenTree::Group(group) = attribute else {
        return false;
    };
    let text: String = group.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The number of tokens of the item, field or arm at the beginning, its further attributes included.
///
/// `use`, `const`, `static` and `let` end with a semicolon, other items with that or with their block, and fields and
/// arms with a comma.
fn item_length(tokens: &[TokenTree]) -> usize {
    let has_word = |words: &[&str], tokens: &[TokenTree]| {
        let listed =
            |token: &TokenTree| matches!(token, TokenTree::Ident(word) if words.iter().any(|w| word == w));
        tokens.iter().any(listed)
    };
    let end = tokens.iter().enumerate().position(|(index, token)| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            let is_function = has_word(&["fn"], &tokens[..index]);
            is_function || !has_word(&["use", "const", "static", "let"], &tokens[..index])
        }
        TokenTree::Punct(mark) if mark.as_char() == ',' => !has_word(ITEMS, &tokens[..index]),
        token => is(token, ';'),
    });
    end.map_or(tokens.len(), |end| end + 1)
}
