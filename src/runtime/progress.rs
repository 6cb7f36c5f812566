//! How far a long work is, told so rarely that it hides nothing else, and never of a short one.

/// Messages from one telling to the next.
const EVERY: usize = 10_000;

/// Told how many messages are done, and of how many when that is known.
pub type Tell = fn(usize, Option<usize>);

#[derive(Debug)]
pub struct Progress {
    tell: Option<Tell>,
    told: usize,
}

impl Progress {
    pub const fn new(tell: Option<Tell>) -> Self {
        Self { tell, told: 0 }
    }

    /// `done` counts from the beginning.
    pub fn at(&mut self, done: usize, all: Option<usize>) {
        if let Some(tell) = self.tell
            && done / EVERY > self.told
        {
            tell(done, all);
        }
        self.told = done / EVERY;
    }
}
