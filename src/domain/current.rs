//! What a reload puts another in the place of.

use std::sync::Arc;

use tokio::sync::watch;

/// A value as it is now.
#[derive(Debug)]
pub struct Current<T>(watch::Sender<Arc<T>>);

impl<T> Current<T> {
    pub fn new(value: T) -> Self {
        Self(watch::Sender::new(Arc::new(value)))
    }

    /// One consistent view, whatever happens meanwhile.
    pub fn get(&self) -> Arc<T> {
        self.0.borrow().clone()
    }

    pub fn replace(&self, value: T) {
        self.0.send_replace(Arc::new(value));
    }

    /// Tells of each replacement.
    pub fn watch(&self) -> watch::Receiver<Arc<T>> {
        self.0.subscribe()
    }
}
