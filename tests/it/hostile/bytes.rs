//! Bytes and values that parsers stumble over, the same in each run.

/// Numbers without pattern from a seed.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    pub(super) fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most);
        (0..length).map(|_| self.byte()).collect()
    }

    /// A body that was right before somebody dropped it.
    pub(super) fn damaged(&mut self, mut body: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(4) {
            let at = self.below(body.len() + 1);
            match self.below(4) {
                0 => body.truncate(at),
                1 => body.insert(at, self.byte()),
                2 => {
                    let piece = body[at.min(body.len())..].to_vec();
                    body.extend(piece);
                }
                _ => {
                    let byte = self.byte();
                    if let Some(hit) = body.get_mut(at) {
                        *hit = byte;
                    }
                }
            }
        }
        body
    }
}

/// Deep enough to end any reader that calls itself for each bracket.
const DEPTH: usize = 100_000;

fn nested(open: &str, inside: &str, close: &str) -> Vec<u8> {
    (open.repeat(DEPTH) + inside + &close.repeat(DEPTH)).into_bytes()
}

/// Values in place of a member.
pub(super) fn values() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = [
        "null",
        "true",
        "{}",
        "[]",
        "[[]]",
        "\"\"",
        "\" \"",
        "\"\\u0000\"",
        "\"a\\u0000b\"",
        "\"\\ud800\"",
        "\"\\udc00x\"",
        "\"\\ud800\\ud800\"",
        "\"../../../etc/passwd\"",
        "\"acme/it/bob/x\"",
        "\"topic:acme/it/t\"",
        "\"' OR 1=1 --\"",
        "\"\\u202e\\ufeff\\u0085\"",
        "\"ＡＬＰＨＡ\"",
        "1e999",
        "-1e999",
        "1e-999",
        "-0",
        "-0.0",
        "0.1",
        "-1",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "4294967296",
        "{\"\":{\"\":{}}}",
        "[null,null,1,\"x\",{}]",
        "{\"a\":1,\"a\":2}",
        "[1e999]",
        // No JSON.
        "NaN",
        "01",
        "+1",
        "1.",
        ".5",
        "0x10",
        "'x'",
        "\"\\x\"",
        "\"\\u12\"",
        "undefined",
        "\"\t\"",
        "",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    values.push("9".repeat(400).into_bytes());
    values.push(format!("0.{}", "3".repeat(400)).into_bytes());
    values.push(format!("\"{}\"", "x".repeat(100_000)).into_bytes());
    values.push(format!("\"{}\"", "🦀".repeat(20_000)).into_bytes());
    values.push(format!("[{}1]", "1,".repeat(50_000)).into_bytes());
    values.push(nested("[", "", "]"));
    values.push(nested("{\"a\":", "1", "}"));
    // Half an emoji in the bytes of CESU-8, and other bytes that are no UTF-8.
    values.push(b"\"\xed\xa0\x80\"".to_vec());
    values.push(b"\"\xed\xb0\x80\xed\xa0\x80\"".to_vec());
    values.push(b"\"\xff\xfe\"".to_vec());
    values.push(b"\"\xc0\xaf\"".to_vec());
    values.push(b"\"\xf4\x90\x80\x80\"".to_vec());
    values.push(b"\"\0\"".to_vec());
    values
}

/// Bodies that are no object with members.
pub(super) fn bodies() -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = [
        &b""[..],
        b" ",
        b"\0",
        b"\0\0\0\0",
        b"null",
        b"[]",
        b"\"text\"",
        b"1e999",
        b"{",
        b"}",
        b"{}{}",
        b"{\"\":1}",
        b"{\"a\":1,}",
        b"{\"\xff\":1}",
        b"{\"\\ud800\":1}",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\0}\0",
        b"\xfe\xff\0{\0}",
        b"{}\0",
        b"{} // no comment",
        b"--boundary\r\ncontent-disposition: form-data; name=\"to\"\r\n\r\nvictim\r\n--boundary--\r\n",
        b"to=victim&body=x",
        b"<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY y SYSTEM \"file:///etc/passwd\">]><x>&y;</x>",
        b"PK\x03\x04",
        b"\x1f\x8b\x08\0",
    ]
    .iter()
    .map(|body| body.to_vec())
    .collect();
    bodies.push(nested("[", "", "]"));
    bodies.push(nested("{\"a\":", "1", "}"));
    bodies.push("[".repeat(DEPTH).into_bytes());
    bodies.push("{\"a\":".repeat(DEPTH).into_bytes());
    bodies
}
