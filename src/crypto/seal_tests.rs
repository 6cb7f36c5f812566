//! What the shared vectors do not cover: every part of a sealed message altered, one at a time.

use super::*;

fn recipient() -> EncPrivateKey {
    EncPrivateKey::from_scalar(&[5; 32]).unwrap()
}

fn secrets() -> SealSecrets {
    SealSecrets { ephemeral: [6; 32], nonce: [1; 12], files_nonce: [2; 12] }
}

fn sealed() -> Sealed {
    seal(&recipient().enc_key(), &secrets(), "m1", "request", b"{\"body\":1}", Some(b"PK zip")).unwrap()
}

#[test]
fn what_is_sealed_opens() {
    let Sealed { enc, zip } = sealed();
    assert_eq!(*open(&recipient(), "m1", "request", &enc).unwrap(), b"{\"body\":1}");
    let zip = zip.unwrap();
    assert_eq!(*open_files(&recipient(), "m1", "request", &enc, &zip).unwrap(), b"PK zip");
    assert_eq!(Enc::from_body(&enc.to_body()).unwrap(), enc);
}

#[test]
fn without_files_there_is_no_files_nonce() {
    let Sealed { enc, zip } = seal(&recipient().enc_key(), &secrets(), "m1", "reply", b"", None).unwrap();
    assert_eq!((enc.files_nonce.as_str(), zip), ("", None));
    assert_eq!(open_files(&recipient(), "m1", "reply", &enc, b"x"), Err(OpenError::Malformed("files_nonce")));
}

#[test]
fn bad_draws_are_refused() {
    let key = recipient().enc_key();
    for ephemeral in [[0; 32], [0xff; 32]] {
        let mut secrets = secrets();
        secrets.ephemeral = ephemeral;
        assert_eq!(seal(&key, &secrets, "m1", "reply", b"", None), Err(SealError::BadEphemeral));
    }
    let mut secrets = secrets();
    secrets.files_nonce = secrets.nonce;
    assert_eq!(seal(&key, &secrets, "m1", "reply", b"", Some(b"")), Err(SealError::RepeatedNonce));
}

#[test]
fn it_opens_only_as_the_message_it_is() {
    let Sealed { enc, zip } = sealed();
    let zip = zip.unwrap();
    let other = EncPrivateKey::from_scalar(&[8; 32]).unwrap();
    let refused = Err(OpenError::CannotOpen);
    assert_eq!(open(&recipient(), "m2", "request", &enc), refused);
    assert_eq!(open(&recipient(), "m1", "reply", &enc), refused);
    assert_eq!(open(&other, "m1", "request", &enc), refused);
    assert_eq!(open_files(&recipient(), "m2", "request", &enc, &zip), refused);
    assert_eq!(open_files(&recipient(), "m1", "request", &enc, &zip[1..]), refused);
    assert_eq!(open_files(&recipient(), "m1", "request", &enc, b""), refused);
}

#[test]
fn every_altered_part_is_refused() {
    type Alter = fn(&mut Enc);
    let cases: [(&str, Alter, OpenError); 9] = [
        ("version", |enc| enc.v = 2, OpenError::UnknownAlgorithm),
        ("algorithm", |enc| enc.alg.push('X'), OpenError::UnknownAlgorithm),
        ("another epk", |enc| enc.epk = recipient().enc_key().to_string(), OpenError::CannotOpen),
        ("epk is no point", |enc| enc.epk.replace_range(80..84, "AAAA"), OpenError::Malformed("epk")),
        ("another nonce", |enc| enc.nonce = enc.files_nonce.clone(), OpenError::CannotOpen),
        ("a short nonce", |enc| enc.nonce = "AAAA".to_owned(), OpenError::Malformed("nonce")),
        ("ct altered", |enc| enc.ct.replace_range(0..4, "AAAA"), OpenError::CannotOpen),
        ("ct shorter than its tag", |enc| enc.ct.truncate(8), OpenError::CannotOpen),
        ("ct is not base64url", |enc| enc.ct.push('*'), OpenError::Malformed("ct")),
    ];
    for (name, alter, expected) in cases {
        let mut enc = sealed().enc;
        alter(&mut enc);
        assert_eq!(open(&recipient(), "m1", "request", &enc), Err(expected), "{name}");
    }
}

#[test]
fn bodies_that_are_not_sealed_are_told_apart() {
    let good = sealed().enc.to_body();
    assert!(is_sealed(&good));
    for bad in [
        json!(null),
        json!({"type": "text/plain", "text": "x"}),
        json!({"type": BODY_TYPE}),
        json!({"type": BODY_TYPE, "enc": {"v": "1"}}),
    ] {
        assert_eq!(Enc::from_body(&bad), Err(OpenError::NotSealed), "{bad}");
    }
}
