//! Bodies over 64 KB travel inside the zip, and are put back where they arrive. Pure.

use serde_json::{Value, json};

use super::archive::{self, ArchiveError};
use super::mapping::{CannotLeave, Opened};
use crate::crypto::json as ijson;
use crate::proto::redsyn::body::{Body, BodyView};
use crate::proto::redsyn::ids::{BODY_LIMIT, FILES_LIMIT};
use crate::store::bridge::Content;

/// Marks the reference that tells of a body inside the zip.
const BODY_URN: &str = "urn:dsh-agent-relay:body:1";
/// Where the `data` of a JSON body travels.
const JSON_MEMBER: &str = "dsh-body.json";
/// Where the text of a text body travels.
const TEXT_MEMBER: &str = "dsh-body.txt";
/// What sealing adds beside base64: the frame of the sealed JSON and of `enc`, with its keys, nonces and tag.
const SEAL_FRAME: usize = 640;
/// The tag at the end of a sealed zip.
const SEAL_TAG: usize = 16;
/// The most bytes of a body that is put back. A local broker takes requests of 1 MiB; JSON written anew may be longer.
const RESTORED_MAX: usize = 4 * 1024 * 1024;

/// What travels, and the zip that goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parcel {
    pub content: Content,
    pub zip: Option<Vec<u8>>,
}

/// Makes the message fit: what is over 64 KB as it would travel moves into the zip. `may_be_sealed` says to leave room
/// for the seal.
///
/// # Errors
/// When body and files together are over 5 MB, or the references alone over 64 KB.
pub fn fit(content: Content, zip: Option<Vec<u8>>, may_be_sealed: bool) -> Result<Parcel, CannotLeave> {
    let parcel = if fits(&content, may_be_sealed) {
        Parcel { content, zip }
    } else {
        spilled(content, zip.as_deref())?
    };
    if !fits(&parcel.content, may_be_sealed) {
        return Err(CannotLeave::TooLarge(
            "its references alone are over the 64 KB that a REDSYN body may have",
        ));
    }
    let most = if may_be_sealed { FILES_LIMIT - SEAL_TAG } else { FILES_LIMIT };
    if parcel.zip.as_ref().is_some_and(|zip| zip.len() > most) {
        return Err(CannotLeave::TooLarge(
            "body and files together are over the 5 MB (5242880 bytes, zipped) that a message may carry",
        ));
    }
    Ok(parcel)
}

/// Whether it fits into 64 KB as it travels: the encoded body in the open, or sealed together with the references.
fn fits(content: &Content, may_be_sealed: bool) -> bool {
    let body = content.body.as_value().to_string().len();
    let refs: usize = content.refs.iter().map(|reference| reference.to_string().len() + 1).sum();
    let sealed = (body + refs + SEAL_FRAME) * 4 / 3;
    body.max(if may_be_sealed { sealed } else { 0 }) <= BODY_LIMIT
}

fn spilled(content: Content, zip: Option<&[u8]>) -> Result<Parcel, CannotLeave> {
    let (member, bytes) = match content.body.view() {
        BodyView::Text(text) => (TEXT_MEMBER, text.as_bytes().to_vec()),
        BodyView::Json(data) => (JSON_MEMBER, data.to_string().into_bytes()),
        BodyView::Encrypted(_) => return Err(CannotLeave::NotJson("it is sealed already".into())),
    };
    let zip = archive::with(zip, member, &bytes).map_err(|error| match error {
        ArchiveError::Taken(_) => CannotLeave::Files(error.to_string()),
        other => CannotLeave::Files(format!("the body does not go into the zip: {other}")),
    })?;
    let line = format!("[dsh] The body is {} bytes long: it is the member {member} of the zip.", bytes.len());
    let mut refs = content.refs;
    refs.push(json!({"url": BODY_URN, "note": member}));
    Ok(Parcel { content: Content { body: Body::text(line), refs }, zip: Some(zip) })
}

/// Puts a body back that came inside the zip. Nothing happens to a message that does not say so.
///
/// # Errors
/// In words, when it says so and there is no such body.
pub fn put_back(opened: &mut Opened) -> Result<(), String> {
    let is_mark = |reference: &Value| reference.get("url").and_then(Value::as_str) == Some(BODY_URN);
    let Some(mark) = opened.refs.iter().position(is_mark) else { return Ok(()) };
    let mark = opened.refs.remove(mark);
    let cannot = |why: &dyn std::fmt::Display| format!("its body cannot be put back: {why}");
    let zip = opened.zip.take().ok_or_else(|| cannot(&"it came without its zip"))?;
    let is_text = mark.get("note").and_then(Value::as_str) == Some(TEXT_MEMBER);
    let name = if is_text { TEXT_MEMBER } else { JSON_MEMBER };
    let bytes = archive::member(&zip, name, RESTORED_MAX).map_err(|error| cannot(&error))?;
    opened.body = if is_text {
        Body::text(String::from_utf8(bytes).map_err(|_| cannot(&"it is no UTF-8"))?)
    } else {
        Body::json(ijson::parse(&bytes).map_err(|error| cannot(&error))?)
    };
    opened.zip = archive::without(&zip, name).map_err(|error| cannot(&error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(body: Body) -> Content {
        Content { body, refs: vec![json!({"url": "https://git.example"})] }
    }

    fn opened(parcel: Parcel) -> Opened {
        let Content { body, refs } = parcel.content;
        Opened { body, refs, reply_key: None, encrypted: false, zip: parcel.zip }
    }

    fn noise(len: usize) -> Vec<u8> {
        use crate::domain::random::{Random, SystemRandom};
        let mut noise = vec![0; len];
        SystemRandom.fill(&mut noise);
        noise
    }

    #[test]
    fn what_fits_stays_and_what_does_not_spills_at_the_very_edge() {
        let frame = Body::text("").as_value().to_string().len();
        let text = |len: usize| content(Body::text("x".repeat(len)));
        assert_eq!(fit(text(BODY_LIMIT - frame), None, false).unwrap().zip, None);
        assert!(fit(text(BODY_LIMIT - frame + 1), None, false).unwrap().zip.is_some());
        assert_eq!(fit(text(48_000), None, true).unwrap().zip, None);
        assert!(fit(text(49_000), None, true).unwrap().zip.is_some());
    }

    #[test]
    fn a_spilled_body_comes_back_as_it_was() {
        let files = archive::with(None, "a.txt", b"one").unwrap();
        for body in [Body::text("ñ📨".repeat(20_000)), Body::json(json!({"list": vec!["long"; 20_000]}))] {
            for zip in [None, Some(files.clone())] {
                let had_files = zip.is_some();
                let parcel = fit(content(body.clone()), zip, true).unwrap();
                assert!(
                    matches!(parcel.content.body.view(), BodyView::Text(line) if line.contains("dsh-body."))
                );
                let mut opened = opened(parcel);
                put_back(&mut opened).unwrap();
                assert_eq!((&opened.body, opened.refs.len()), (&body, 1));
                assert_eq!(opened.zip.is_some(), had_files);
                if let Some(zip) = opened.zip {
                    assert_eq!(archive::member(&zip, "a.txt", 3).unwrap(), b"one");
                }
            }
        }
    }

    #[test]
    fn five_megabytes_are_the_limit_and_are_named() {
        let big = content(Body::text("x".repeat(100_000)));
        let noise = archive::with(None, "noise", &noise(FILES_LIMIT)).unwrap();
        let refused = fit(big, Some(noise), true).unwrap_err();
        assert!(refused.to_string().contains("5 MB"), "{refused}");
        let refs = vec![json!({"url": "x".repeat(BODY_LIMIT)})];
        let refused = fit(Content { body: Body::text("hi"), refs }, None, true).unwrap_err();
        assert!(refused.to_string().contains("references"), "{refused}");
    }

    #[test]
    fn a_mark_without_its_body_is_refused() {
        let marked = |note: &str, zip: Option<Vec<u8>>| Opened {
            body: Body::text("see the zip"),
            refs: vec![json!({"url": BODY_URN, "note": note})],
            reply_key: None,
            encrypted: false,
            zip,
        };
        let bomb = archive::with(None, TEXT_MEMBER, &vec![b'x'; RESTORED_MAX + 1]).unwrap();
        for (mut opened, why) in [
            (marked(TEXT_MEMBER, None), "without its zip"),
            (marked(TEXT_MEMBER, archive::with(None, "other", b"x").ok()), "no member"),
            (marked(JSON_MEMBER, archive::with(None, JSON_MEMBER, b"{").ok()), "cannot be put back"),
            (marked(TEXT_MEMBER, archive::with(None, TEXT_MEMBER, &[0xff]).ok()), "no UTF-8"),
            (marked(TEXT_MEMBER, Some(bomb)), "larger"),
            (marked(TEXT_MEMBER, Some(b"PK-bytes".to_vec())), "no zip"),
        ] {
            let told = put_back(&mut opened).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
