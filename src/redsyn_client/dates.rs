//! The API date that calls ask for (spec, «Versiones»). A relay that does not know ours is spoken to in the nearest that
//! it knows: a field never changes its meaning, and what is new is optional.

use std::sync::{PoisonError, RwLock};

use reqwest::header::HeaderValue;

#[derive(Debug)]
pub(super) struct Dates {
    asked: HeaderValue,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    used: HeaderValue,
    /// What the relay said it used, when that was something else.
    answered: Option<String>,
}

impl Dates {
    pub(super) fn new(asked: HeaderValue) -> Self {
        let state = RwLock::new(State { used: asked.clone(), answered: None });
        Self { asked, state }
    }

    pub(super) fn used(&self) -> HeaderValue {
        self.state.read().unwrap_or_else(PoisonError::into_inner).used.clone()
    }

    /// The relay did not know `tried` and said which dates it knows. Whether there is another to try.
    pub(super) fn fall_back(&self, tried: &HeaderValue, known: &[String]) -> bool {
        let asked = self.asked.to_str().unwrap_or_default();
        let Some(nearest) = nearest(asked, known).and_then(|date| HeaderValue::from_str(date).ok()) else {
            return false;
        };
        let is_other = nearest != *tried;
        if is_other {
            self.state.write().unwrap_or_else(PoisonError::into_inner).used = nearest;
        }
        is_other
    }

    /// An answer told which date it used, or did not.
    pub(super) fn answered(&self, date: Option<&HeaderValue>) {
        let Some(date) = date.and_then(|date| date.to_str().ok()) else { return };
        let answered = (Some(date) != self.used().to_str().ok()).then(|| date.to_owned());
        let is_news = self.state.read().unwrap_or_else(PoisonError::into_inner).answered != answered;
        if is_news {
            self.state.write().unwrap_or_else(PoisonError::into_inner).answered = answered;
        }
    }

    /// What differs from what was asked for, in words for a person.
    pub(super) fn lacks(&self) -> Option<String> {
        let asked = self.asked.to_str().unwrap_or_default();
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(answered) = &state.answered {
            return Some(format!("the relay was asked for {asked} and answers as of {answered}"));
        }
        let used = state.used.to_str().unwrap_or_default();
        (used != asked).then(|| format!("the relay does not know {asked}; it is spoken to as of {used}"))
    }
}

/// The newest date that is not after ours, else the oldest.
fn nearest<'a>(asked: &str, known: &'a [String]) -> Option<&'a str> {
    let is_date =
        |text: &&str| text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let dates = || known.iter().map(String::as_str).filter(is_date);
    dates().filter(|date| *date <= asked).max().or_else(|| dates().min())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(dates: &[&str]) -> Vec<String> {
        dates.iter().map(|date| (*date).to_owned()).collect()
    }

    #[test]
    fn the_nearest_date_is_the_newest_that_is_not_after_ours() {
        for (dates, nearest_one) in [
            (&["2026-01-01", "2026-09-01", "2027-01-01"][..], Some("2026-09-01")),
            (&["2027-06-01", "2027-01-01"], Some("2027-01-01")),
            (&["latest", "", "v1"], None),
            (&[], None),
        ] {
            assert_eq!(nearest("2026-09-25", &known(dates)), nearest_one, "{dates:?}");
        }
    }

    #[test]
    fn what_was_refused_is_not_tried_again_and_the_difference_is_told() {
        let dates = Dates::new(HeaderValue::from_static("2026-09-25"));
        assert_eq!(dates.lacks(), None);
        assert!(!dates.fall_back(&dates.used(), &known(&["2026-09-25"])));
        assert!(dates.fall_back(&dates.used(), &known(&["2026-01-01"])));
        assert_eq!(dates.used(), "2026-01-01");
        assert!(dates.lacks().unwrap().contains("as of 2026-01-01"));
        assert!(!dates.fall_back(&dates.used(), &known(&["2026-01-01"])));
        dates.answered(Some(&HeaderValue::from_static("2025-01-01")));
        assert!(dates.lacks().unwrap().contains("answers as of 2025-01-01"));
        dates.answered(Some(&HeaderValue::from_static("2026-01-01")));
        assert!(dates.lacks().unwrap().contains("does not know"));
    }
}
