//! What nobody should ever send, sent to the real broker and to our relay: each request gets an answer that its client can read, a
//! refused one leaves nothing behind, and the next honest one is served.

mod bodies;
mod broker;
mod bytes;
mod endpoints;
mod floods;
mod halves;
mod heads;
mod large;
mod relay;
