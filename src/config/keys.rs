//! Refusing keys nobody reads: a misspelt limit must not look like a set one.

use std::fmt::Write as _;

/// How alike two keys must be for one to be meant (1 is the same).
const ALIKE: f64 = 0.6;

/// The first of `given` that is not in `known`, in words.
pub fn unknown<'a>(given: impl IntoIterator<Item = &'a str>, known: &[&str]) -> Option<String> {
    let unknown = given.into_iter().find(|key| !known.contains(key))?;
    let mut text = format!("unknown key {unknown:?}");
    let nearest = known
        .iter()
        .map(|key| (strsim::normalized_damerau_levenshtein(&unknown.to_lowercase(), &key.to_lowercase()), key))
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    match nearest {
        Some((alike, key)) if alike >= ALIKE => {
            // Writing into a String cannot fail.
            let _ = write!(text, "; did you mean {key:?}?");
        }
        _ => {
            let _ = write!(text, "; known here: {}", known.join(", "));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_named() {
        let known = ["listen", "dataDir", "plans"];
        assert_eq!(unknown(["listen", "plans"], &known), None);
        assert_eq!(unknown(["datadir"], &known).unwrap(), "unknown key \"datadir\"; did you mean \"dataDir\"?");
        assert_eq!(unknown(["x"], &known).unwrap(), "unknown key \"x\"; known here: listen, dataDir, plans");
    }
}
