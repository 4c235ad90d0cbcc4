//! Rust text without its comments, apart from its strings, and the paths that it says: enough for rules about imports.

/// A file's code and strings.
pub(crate) struct Text {
    /// The code, with a blank for each comment and each string.
    pub(crate) code: String,
    /// The content of each string, as written.
    pub(crate) strings: Vec<String>,
}

impl Text {
    /// Tells code, comments and strings apart.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parsed = Self { code: String::new(), strings: Vec::new() };
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            rest = parsed.take(rest, next);
        }
        parsed
    }

    /// Takes one thing from the front and returns the rest.
    fn take<'t>(&mut self, rest: &'t str, next: char) -> &'t str {
        if rest.starts_with("//") {
            return rest.find('\n').map_or("", |end| &rest[end..]);
        }
        if rest.starts_with("/*") {
            self.code.push(' ');
            return rest.find("*/").map_or("", |end| &rest[end + 2..]);
        }
        let in_word = self.code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if let Some(hashes) = raw_string(rest).filter(|_| !in_word) {
            let (open, close) = (hashes + 2, format!("\"{}", "#".repeat(hashes)));
            let end = rest[open..].find(&close).unwrap_or(rest.len() - open);
            return self.string(&rest[open..open + end], rest.get(open + end + close.len()..));
        }
        if next == '"' {
            let end = string_end(&rest[1..]);
            return self.string(&rest[1..1 + end], rest.get(end + 2..));
        }
        if next == '\''
            && let Some(length) = char_literal(rest)
        {
            self.code.push(' ');
            return &rest[length..];
        }
        self.code.push(next);
        &rest[next.len_utf8()..]
    }

    fn string<'t>(&mut self, content: &str, rest: Option<&'t str>) -> &'t str {
        self.strings.push(content.to_owned());
        self.code.push(' ');
        rest.unwrap_or("")
    }

    /// Every path that the code says, the trees of `use` spread out. A word alone is a path, too.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let tokens = tokens(&self.code);
        let mut at = 0;
        while at < tokens.len() {
            let in_use = tokens[at] == "use";
            at += usize::from(in_use);
            at = path(&tokens, at, "", &mut paths);
        }
        paths
    }
}

/// How many hashes a raw string here opens with.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// Where the closing quote of a string is.
fn string_end(content: &str) -> usize {
    let mut escaped = false;
    for (at, c) in content.char_indices() {
        match c {
            '"' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    content.len()
}

/// The bytes of a character literal; nothing where it is a lifetime.
fn char_literal(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        let escaped = chars.next()?.0;
        return rest[escaped + 1..].find('\'').map(|end| escaped + end + 2);
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

/// Words, `::`, and single other characters.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            c if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            _ if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Reads a path, or a tree of them, behind a prefix. Returns where it ends, always further on.
fn path(tokens: &[&str], mut at: usize, prefix: &str, paths: &mut Vec<String>) -> usize {
    let start = at;
    let mut path = prefix.to_owned();
    while let Some(&token) = tokens.get(at) {
        let is_word = token.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if token == "{" && path.ends_with("::") {
            return tree(tokens, at + 1, &path, paths);
        }
        let wants_word = path.is_empty() || path.ends_with("::");
        if !(is_word && wants_word || token == "::" && !path.is_empty()) {
            break;
        }
        path.push_str(token);
        at += 1;
    }
    if !path.is_empty() && path != prefix {
        paths.push(path.trim_end_matches("::").to_owned());
    }
    at.max(start + 1)
}

/// Reads the branches of a tree up to its closing brace.
fn tree(tokens: &[&str], mut at: usize, prefix: &str, paths: &mut Vec<String>) -> usize {
    while let Some(&token) = tokens.get(at) {
        match token {
            "}" => return at + 1,
            "," => at += 1,
            // A new name is no path.
            "as" => at += 2,
            _ => at = path(tokens, at, prefix, paths),
        }
    }
    at
}
