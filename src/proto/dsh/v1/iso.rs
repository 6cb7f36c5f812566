//! Timestamps as JavaScript's `toISOString` writes them, and as `Date` reads the like.

/// Unix milliseconds as `YYYY-MM-DDThh:mm:ss.mmmZ`. Years outside 0–9999 do not occur on a broker's clock.
pub fn iso(millis: i64) -> String {
    let (days, in_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = date(days);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// The Gregorian date of a day counted from 1970-01-01, in eras of 400 years that begin on 1 March.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Unix milliseconds of `YYYY-MM-DDThh:mm:ss`, with or without a fraction, in UTC (`Z`) or at an offset (`+02:00`).
pub fn parse_iso(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let (time, offset) = match time.find(['Z', '+', '-']) {
        Some(at) => (time.get(..at)?, offset(time.get(at..)?)?),
        None => return None,
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 24 || minute > 59 || second > 59 {
        return None;
    }
    let millis: i64 = fraction.chars().chain("00".chars()).take(3).collect::<String>().parse().ok()?;
    let in_day = ((hour * 60 + minute) * 60 + second) * 1000 + millis;
    Some(days(year, month, day) * 86_400_000 + in_day - offset * 60_000)
}

/// Minutes that the clock there is ahead of UTC.
fn offset(text: &str) -> Option<i64> {
    let sign = match text.chars().next()? {
        'Z' => return (text.len() == 1).then_some(0),
        '-' => -1,
        _ => 1,
    };
    let [hours, minutes] = numbers(text.get(1..)?, ':')?;
    Some(sign * (hours * 60 + minutes))
}

fn numbers<const N: usize>(text: &str, between: char) -> Option<[i64; N]> {
    let digits = |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = text.split(between).map(|part| digits(part).then(|| part.parse().ok()).flatten());
    parts.collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// The days from 1970-01-01 to a Gregorian date: the inverse of [`date`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let month = (month + 9) % 12;
    let day = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year * 365 + year / 4 - year / 100 + day - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_712_345_678_000, "2024-04-05T19:34:38.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(iso(millis), text);
            assert_eq!(parse_iso(text), Some(millis));
        }
    }

    #[test]
    fn other_ways_of_writing_the_same_moment() {
        for text in [
            "2024-02-29T23:59:59Z",
            "2024-02-29T23:59:59.0Z",
            "2024-03-01T01:59:59.000000+02:00",
            "2024-02-29T18:29:59-05:30",
        ] {
            assert_eq!(parse_iso(text), Some(1_709_251_199_000), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment() {
        for text in [
            "",
            "now",
            "2024-02-29",
            "2024-02-29T23:59:59",
            "2024-13-01T00:00:00Z",
            "2024-02-29T23:59Z",
            "2024-02-29T23:59:59Zulu",
            "2024-02-29T23:59:59.x0Z",
            "2024-02-29T23:+9:59Z",
            "T:::Z",
        ] {
            assert_eq!(parse_iso(text), None, "{text}");
        }
    }
}
