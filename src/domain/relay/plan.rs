//! What each plan allows (spec, «Límites»). `None` is no limit.

use std::collections::BTreeMap;

const MB: u64 = 1 << 20;
const DAY: u64 = 24 * 60 * 60;

/// The limits of one plan. They count per organisation; the plan is its creator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub messages_per_day: Option<u64>,
    /// Bytes of files that wait for delivery.
    pub files_bytes: Option<u64>,
    /// The longest a message may wait, in seconds.
    pub ttl_secs: u64,
    pub agents: Option<u64>,
    pub links: Option<u64>,
    pub webhooks: Option<u64>,
}

/// The plan of somebody whose own plan is no longer configured: the tightest.
pub const FALLBACK: &str = "free";

/// All plans by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plans {
    named: BTreeMap<String, Plan>,
    fallback: Plan,
}

impl Default for Plans {
    fn default() -> Self {
        let pro = Plan {
            messages_per_day: Some(50_000),
            files_bytes: Some(2048 * MB),
            ttl_secs: 7 * DAY,
            agents: Some(100),
            links: Some(10),
            webhooks: Some(20),
        };
        let enterprise = Plan {
            messages_per_day: None,
            files_bytes: Some(20 * 1024 * MB),
            ttl_secs: 30 * DAY,
            agents: None,
            links: None,
            webhooks: None,
        };
        let named = [(FALLBACK, free()), ("pro", pro), ("enterprise", enterprise)];
        Self { named: named.map(|(name, plan)| (name.to_owned(), plan)).into(), fallback: free() }
    }
}

fn free() -> Plan {
    Plan {
        messages_per_day: Some(1_000),
        files_bytes: Some(50 * MB),
        ttl_secs: DAY,
        agents: Some(5),
        links: Some(1),
        webhooks: Some(1),
    }
}

impl Plans {
    /// The plan called `name`, or the fallback when nobody configured it.
    pub fn get(&self, name: &str) -> &Plan {
        self.named.get(name).unwrap_or(&self.fallback)
    }

    pub fn is_known(&self, name: &str) -> bool {
        self.named.contains_key(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    /// Adds a plan or replaces one.
    pub fn set(&mut self, name: &str, plan: Plan) {
        if name == FALLBACK {
            self.fallback = plan.clone();
        }
        self.named.insert(name.to_owned(), plan);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_plan_is_the_tightest() {
        let plans = Plans::default();
        assert_eq!(plans.get("gold"), plans.get("free"));
        assert_eq!(plans.get("free").agents, Some(5));
        assert_eq!(plans.get("enterprise").agents, None);
    }

    #[test]
    fn changing_free_changes_the_fallback() {
        let mut plans = Plans::default();
        let mut free = plans.get("free").clone();
        free.agents = Some(1);
        plans.set("free", free);
        assert_eq!(plans.get("gone").agents, Some(1));
    }
}
