//! Topics, as they are shown.

use crate::proto::redsyn::address::{AgentAddress, TopicAddress};

#[derive(Clone, Debug)]
pub struct TopicView {
    pub topic: TopicAddress,
    pub listeners: Vec<AgentAddress>,
}
