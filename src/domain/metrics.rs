//! Numbers a process keeps of itself, and how they are said: the text format of Prometheus. What is counted, and under
//! which names, is the business of whoever counts; a name that has shipped is not changed.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What an answer with a [`Text`] is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// Numbers that only grow, each under its place.
#[derive(Debug)]
pub struct Tally<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; N])
    }
}

impl<const N: usize> Tally<N> {
    pub fn add(&self, at: usize, by: u64) {
        if let Some(count) = self.0.get(at) {
            count.fetch_add(by, Ordering::Relaxed);
        }
    }

    pub fn get(&self, at: usize) -> u64 {
        self.0.get(at).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

/// How often values were how large. A value counts at the first bound that it is not above.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    bounds: [u64; N],
    counts: Tally<N>,
    above: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    /// `bounds` grow.
    pub fn new(bounds: [u64; N]) -> Self {
        Self { bounds, counts: Tally::default(), above: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    pub fn observe(&self, value: u64) {
        match self.bounds.iter().position(|bound| value <= *bound) {
            Some(at) => self.counts.add(at, 1),
            None => drop(self.above.fetch_add(1, Ordering::Relaxed)),
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        (0..N).map(|at| self.counts.get(at)).sum::<u64>() + self.above.load(Ordering::Relaxed)
    }

    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }
}

/// What becomes of a number over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A label and its value. Both are words of this program: whatever a stranger can choose is no label, or there would be
/// as many numbers as they like.
pub type Label = (&'static str, &'static str);

/// A page of numbers.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// A number that stands alone.
    pub fn one(&mut self, name: &str, help: &str, kind: Kind, value: impl Display) {
        self.family(name, help, kind);
        self.sample(name, &[], value);
    }

    /// Begins the numbers of one name, which must follow it.
    pub fn family(&mut self, name: &str, help: &str, kind: Kind) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.head(name, help, kind);
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub fn sample(&mut self, name: &str, labels: &[Label], value: impl Display) {
        let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let _ = match labels.as_slice() {
            [] => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{}}} {value}", labels.join(",")),
        };
    }

    /// Values as they were observed.
    pub fn histogram<const N: usize>(&mut self, name: &str, help: &str, values: &Histogram<N>) {
        self.buckets(name, help, values, &|value| value.to_string());
    }

    /// Values observed in microseconds, in seconds.
    pub fn durations<const N: usize>(&mut self, name: &str, help: &str, values: &Histogram<N>) {
        self.buckets(name, help, values, &|micros| Duration::from_micros(micros).as_secs_f64().to_string());
    }

    fn buckets<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: &Histogram<N>,
        said: &dyn Fn(u64) -> String,
    ) {
        self.head(name, help, "histogram");
        let mut so_far = 0;
        for (at, bound) in values.bounds.iter().enumerate() {
            so_far += values.counts.get(at);
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{}\"}} {so_far}", said(*bound));
        }
        // Read once, so that the last bucket and the count agree whatever is observed meanwhile.
        let count = so_far + values.above.load(Ordering::Relaxed);
        let _ = writeln!(self.0, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(self.0, "{name}_sum {}\n{name}_count {count}", said(values.sum()));
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_prometheus_reads() {
        let values = Histogram::new([250, 1000]);
        for micros in [1, 250, 251, 5_000_000] {
            values.observe(micros);
        }
        let mut text = Text::default();
        text.one("a_total", "All of a", Kind::Counter, 3);
        text.family("b", "Some b", Kind::Gauge);
        text.sample("b", &[("of", "x"), ("to", "y")], 0.5);
        text.durations("c_seconds", "How long", &values);
        text.histogram("d", "How large", &Histogram::new([1]));
        assert_eq!((values.count(), values.sum()), (4, 5_000_502));
        let page = "# HELP a_total All of a\n# TYPE a_total counter\na_total 3\n\
            # HELP b Some b\n# TYPE b gauge\nb{of=\"x\",to=\"y\"} 0.5\n\
            # HELP c_seconds How long\n# TYPE c_seconds histogram\n\
            c_seconds_bucket{le=\"0.00025\"} 2\nc_seconds_bucket{le=\"0.001\"} 3\nc_seconds_bucket{le=\"+Inf\"} 4\n\
            c_seconds_sum 5.000502\nc_seconds_count 4\n\
            # HELP d How large\n# TYPE d histogram\n\
            d_bucket{le=\"1\"} 0\nd_bucket{le=\"+Inf\"} 0\nd_sum 0\nd_count 0\n";
        assert_eq!(text.into_string(), page);
    }

    #[test]
    fn a_place_that_is_not_there_counts_nothing() {
        let tally = Tally::<2>::default();
        tally.add(1, 5);
        tally.add(2, 5);
        assert_eq!((tally.get(0), tally.get(1), tally.get(2)), (0, 5, 0));
    }
}
