//! The one way to standard output and standard error. Whoever closes the other end (`… | head -1`) wants no more of
//! it: that is no failure of ours, and must not end a process that serves others.

use std::fmt::Display;
use std::io::{self, Write};

/// A text as it is.
pub(super) fn text(text: impl Display) {
    let mut out = io::stdout().lock();
    // See above: the other end is closed.
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// A text and the end of its line.
pub(super) fn line(line: impl Display) {
    text(format_args!("{line}\n"));
}

/// One sentence for a person, beside the output.
pub(super) fn aside(sentence: impl Display) {
    // There is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "redsyn-bridge: {sentence}");
}
