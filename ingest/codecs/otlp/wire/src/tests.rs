//! Unit tests, small enough for miri: `cargo test`, `cargo +nightly miri test`.

use crate::cursor::{Cursor, Once};
use crate::scan::is_sound;
use crate::tables::{Attribute, Event, Link, Read, Resource, Span, Stop, Table, Value, Word};
use crate::walk::{Walk, role};
use crate::words::{Kind, Words};
use crate::{Array, distinct, walk};

fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    match body.len() {
        n @ ..128 => out.push(n as u8),
        n => out.extend([n as u8 | 128, (n >> 7) as u8]),
    }
    out.extend(body);
    out
}

fn text_attribute(key: &[u8], text: &[u8]) -> Vec<u8> {
    [field(1, key), field(2, &field(1, text))].concat()
}

/// A message of one span with its attributes, whose resource has a name.
fn message(attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut span = [field(1, &[7; 16]), field(2, &[8; 8]), field(5, b"GET /a")].concat();
    for attribute in attributes {
        span.extend(field(9, attribute));
    }
    let resource = field(1, &field(1, &text_attribute(b"service.name", b"shop")));
    field(1, &[resource, field(2, &field(2, &span))].concat())
}

struct Rows {
    words: Vec<Word>,
    attributes: Vec<Attribute>,
    spans: Vec<Span>,
    resources: Vec<Resource>,
    links: Vec<Link>,
    events: Vec<Event>,
}

fn zeros<T>(n: usize) -> Vec<T> {
    // SAFETY: rows are made of integers.
    (0..n).map(|_| unsafe { std::mem::zeroed() }).collect()
}

impl Rows {
    fn new(words: usize) -> Self {
        Rows {
            words: zeros(words),
            attributes: zeros(64),
            spans: zeros(8),
            resources: zeros(8),
            links: zeros(8),
            events: zeros(8),
        }
    }

    /// True where the message was read; numbers of spans and attributes.
    fn read(&mut self, bytes: &[u8], roles: &[i64]) -> (bool, usize, usize) {
        let mut walk = Walk {
            words: Words::new(bytes, &mut self.words, 1, 64).ok().unwrap(),
            attributes: Table::new(&mut self.attributes),
            spans: Table::new(&mut self.spans),
            resources: Table::new(&mut self.resources),
            links: Table::new(&mut self.links),
            events: Table::new(&mut self.events),
            roles,
            max_name: 64,
        };
        let was_read = walk.read(bytes).ok().unwrap();
        (was_read, walk.spans.len(), walk.attributes.len())
    }
}

#[test]
fn numbers_are_read_in_their_shortest_form_alone() {
    assert_eq!(Cursor::new(&[0x96, 0x01]).varint(), Some(150));
    assert_eq!(Cursor::new(&[0x96, 0x80, 0x00]).varint(), None);
    let mut largest = [0xff; 10];
    largest[9] = 1;
    assert_eq!(Cursor::new(&largest).varint(), Some(u64::MAX));
    largest[9] = 2;
    assert_eq!(Cursor::new(&largest).varint(), None);
    assert_eq!(Cursor::new(&[0xff; 11]).varint(), None);
    assert_eq!(Cursor::new(&[0x80]).varint(), None);
    assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).small(), None);
}

#[test]
fn lengths_stay_in_their_message() {
    let mut c = Cursor::new(&[2, 7, 8, 9]);
    assert_eq!(c.sized(), Some(&[7, 8][..]));
    assert!(c.end().is_none());
    assert_eq!(Cursor::new(&[5, 1]).sized(), None);
    assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0x7f]).sized(), None);
    assert_eq!(Cursor::new(&[]).fixed64(), None);
    let mut once = Once::default();
    assert!(once.first(3).is_some() && once.first(4).is_some() && once.first(3).is_none());
}

#[test]
fn words_have_one_code_and_kinds_are_apart() {
    let bytes = b"abcabc\xff123456789012345678901234567890";
    let mut rows = zeros::<Word>(16);
    let mut words = Words::new(bytes, &mut rows, 9, 64).ok().unwrap();
    assert_eq!(words.text(&bytes[..3]), Ok(0));
    assert_eq!(words.text(&bytes[3..6]), Ok(0));
    assert_eq!(words.code(&bytes[..3], Kind::Bytes), Ok(1));
    assert_eq!(words.text(&bytes[6..7]), Err(Stop::Bad));
    assert_eq!(words.text(&bytes[6..7]), Err(Stop::Bad));
    for end in 8..bytes.len() {
        let code = words.text(&bytes[7..end]);
        let again = words.text(&bytes[7..end]);
        assert_eq!(code, again);
    }
    assert!(!words.has_room());
}

#[test]
fn the_hash_table_grows() {
    let bytes: Vec<u8> = (0..3000u32)
        .flat_map(u32::to_be_bytes)
        .map(|b| b & 127)
        .collect();
    let n = if cfg!(miri) { 10 } else { 2500 };
    let mut rows = zeros::<Word>(3000);
    let mut words = Words::new(&bytes, &mut rows, 9, 64).ok().unwrap();
    let codes = |words: &mut Words<'_>| -> Vec<Read<i64>> {
        let mut out = Vec::new();
        for chunk in bytes.chunks(4).take(n) {
            let place = chunk.as_ptr().addr() - bytes.as_ptr().addr();
            let part = &bytes[place..place + 4];
            // SAFETY: `part` lies in `bytes`, which outlives the words.
            let part: &[u8] = unsafe { std::slice::from_raw_parts(part.as_ptr(), 4) };
            let mut code = words.text(part);
            if code == Err(Stop::Full) {
                assert!(words.grow().is_ok());
                code = words.text(part);
            }
            out.push(code);
        }
        out
    };
    let first = codes(&mut words);
    assert_eq!(first, codes(&mut words));
}

#[test]
fn a_message_is_read_or_leaves_no_row() {
    let sound = message(&[
        text_attribute(b"k", b"v"),
        [field(1, b"n"), field(2, &[0x18, 0x96, 1])].concat(),
    ]);
    let mut rows = Rows::new(32);
    assert_eq!(rows.read(&sound, &[]), (true, 1, 3));
    assert!(matches!(rows.attributes[2].value(), Value::Int(150)));
    for end in 1..sound.len() {
        assert_eq!(rows.read(&sound[..end], &[]), (false, 0, 0), "{end}");
    }
    for at in 0..sound.len() {
        for bit in 0..8 {
            let mut other = sound.clone();
            other[at] ^= 1 << bit;
            let (was_read, spans, _) = rows.read(&other, &[]);
            assert!(was_read || spans == 0);
        }
        if cfg!(miri) && at > 8 {
            break;
        }
    }
    assert_eq!(Rows::new(2).read(&sound, &[]).0, false); // no room for its words
}

#[test]
fn what_becomes_a_column_of_text_is_text() {
    let numeric = [field(1, b"k"), field(2, &[0x18, 1])].concat();
    let mut rows = Rows::new(32);
    assert_eq!(rows.read(&message(&[numeric.clone()]), &[]), (true, 1, 2));
    // Words in the order of the message: service.name, shop, the span's name, k.
    for bits in [role::PEER, role::LABEL, role::SAMPLER] {
        assert!(!rows.read(&message(&[numeric.clone()]), &[0, 0, 0, bits]).0);
    }
    assert!(
        !rows
            .read(
                &message(&[text_attribute(b"k", b"v")]),
                &[0, 0, 0, role::SAMPLER]
            )
            .0
    );
    assert!(
        rows.read(
            &message(&[text_attribute(b"k", b"v")]),
            &[0, 0, 0, role::PEER]
        )
        .0
    );
    assert!(!rows.read(&message(&[text_attribute(b"k\0", b"v")]), &[]).0);
    assert!(
        !rows
            .read(&message(&[text_attribute(&[b'k'; 65], b"v")]), &[])
            .0
    );
}

#[test]
fn nested_values_are_checked_to_their_leaves() {
    let list = |inner: &[u8]| [field(1, b"k"), field(2, &field(5, &field(1, inner)))].concat();
    let mut rows = Rows::new(32);
    let mut read = |inner: &[u8]| rows.read(&message(&[list(inner)]), &[]).0;
    assert!(read(&field(1, b"text")));
    assert!(!read(&field(1, b"\xff")));
    assert!(!read(&[0x18, 1, 0x18, 1]));
    assert!(read(&field(6, &field(1, &text_attribute(b"a", b"b")))));
    assert!(!read(&field(6, &field(1, &field(1, b"\xff")))));
    let mut deep = field(1, b"x");
    for _ in 0..14 {
        deep = field(5, &field(1, &deep));
    }
    assert!(read(&deep));
    for _ in 0..4 {
        deep = field(5, &field(1, &deep));
    }
    assert!(!read(&deep));
}

#[test]
fn a_panic_becomes_a_number() {
    let arrays: [Array; 0] = [];
    // SAFETY: no array is there, and none is read.
    assert_eq!(unsafe { walk(arrays.as_ptr(), 0) }, -1);
}

#[test]
fn codes_are_numbered_in_the_order_of_their_rows() {
    let codes = [5i64, 2, -1, 5, 2];
    let (mut dense, mut used, mut out) = ([-1i32; 6], [0i32; 6], [0i32; 5]);
    let arrays = [
        Array {
            at: codes.as_ptr().cast_mut().cast(),
            rows: 5,
        },
        Array {
            at: dense.as_mut_ptr().cast(),
            rows: 6,
        },
        Array {
            at: used.as_mut_ptr().cast(),
            rows: 6,
        },
        Array {
            at: out.as_mut_ptr().cast(),
            rows: 5,
        },
    ];
    // SAFETY: the arrays have these types and lengths.
    assert_eq!(unsafe { distinct(arrays.as_ptr(), 4) }, 2);
    assert_eq!((&used[..2], out), (&[5, 2][..], [0, 1, -1, 0, 1]));
}

#[test]
fn spans_are_sound_by_ids_and_times_alone() {
    let sound = |fields: &[Vec<u8>]| {
        let span = field(2, &fields.concat());
        is_sound(&field(1, &field(2, &span)))
    };
    let (trace, id) = (field(1, &[7; 16]), field(2, &[8; 8]));
    let time =
        |number: u8, nanos: u64| [vec![number << 3 | 1], nanos.to_le_bytes().into()].concat();
    const NOW: u64 = 1_700_000_000_000_000_000;
    let unknown = vec![0xfa, 0x3f, 1, 0, 0x80, 0x01, 0x05];
    assert!(sound(&[trace.clone(), id.clone()]));
    assert!(sound(&[
        trace.clone(),
        id.clone(),
        time(7, NOW),
        time(8, NOW),
        unknown
    ]));
    assert!(!sound(&[
        trace.clone(),
        id.clone(),
        time(7, NOW),
        time(8, NOW - 1)
    ]));
    assert!(!sound(&[
        trace.clone(),
        id.clone(),
        time(8, NOW / 1_000_000)
    ]));
    assert!(!sound(&[trace.clone(), id.clone(), field(4, &[1; 7])]));
    assert!(!sound(&[trace.clone(), field(2, &[0; 8])]));
    assert!(!sound(&[trace.clone()]));
    assert!(!sound(&[trace, id, vec![0x8a, 0x00, 0]])); // a tag that is not in its shortest form
    assert!(!is_sound(b"\x12\x00"));
}
