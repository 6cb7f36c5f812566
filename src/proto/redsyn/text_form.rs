//! Types that travel as one text: serde reads and writes them through `FromStr` and `Display`.

/// Implements the conversions that `#[serde(try_from = "String", into = "String")]` needs.
macro_rules! text_form {
    ($($type:ty),+ $(,)?) => {$(
        impl TryFrom<String> for $type {
            type Error = <$type as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )+};
}

pub(super) use text_form;
