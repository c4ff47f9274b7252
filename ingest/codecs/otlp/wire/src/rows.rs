//! Columns made of the rows of a walk: parameters, words and ids of every span, still as codes.

use crate::tables::*;
use crate::walk::{MAX_OF_SPAN, role};
use crate::words::{NoRoom, RAW};

const NONE: i64 = -1;
const NUMBER: i64 = -1;
const KIND_CLIENT: i64 = 3;
const KIND_PRODUCER: i64 = 4;

/// The number of distinct words. Writes them to `used` in the order of their first rows, and to `out` the codes
/// made dense. `dense` is -1 for every word.
pub fn distinct(codes: &[i64], dense: &mut [i32], used: &mut [i32], out: &mut [i32]) -> usize {
    let mut k = 0;
    for (&code, out) in codes.iter().zip(out) {
        if code < 0 {
            *out = code as i32;
            continue;
        }
        let dense = &mut dense[code as usize];
        if *dense < 0 {
            *dense = k as i32;
            used[k] = code as i32;
            k += 1;
        }
        *out = *dense;
    }
    k
}

/// The number of bytes of all texts; writes where each ends.
pub fn text_bytes(words: &[Word], offsets: &mut [i32]) -> i64 {
    let mut end = 0i32;
    for (word, offset) in words.iter().zip(offsets) {
        if word.flags >= 0 && word.flags & RAW == 0 {
            end += word.size as i32;
        }
        *offset = end;
    }
    i64::from(end)
}

pub fn texts(buf: &[u8], words: &[Word], offsets: &[i32], data: &mut [u8]) {
    let mut begin = 0;
    for (word, &end) in words.iter().zip(offsets) {
        let to = &mut data[begin..end as usize];
        to.copy_from_slice(&buf[word.at as usize..][..to.len()]);
        begin = end as usize;
    }
}

/// Marks the words that are keys of spans and resources.
pub fn keys_used(attributes: &[Attribute], is_of_event: &[u8], out: &mut [u8]) {
    for (attribute, &is_of_event) in attributes.iter().zip(is_of_event) {
        out[attribute.key as usize] |= u8::from(is_of_event == 0);
    }
}

#[derive(Clone, Copy)]
enum Source {
    Attribute(u32),
    Message,
    Name,
    Event(u32),
    OfEvent(u32),
}

#[derive(Clone, Copy)]
struct Place {
    rank: i32,
    source: Source,
}

impl Place {
    /// True for places of events: on equal ranks a resource's come before them, and after a span's own.
    fn is_late(&self) -> bool {
        matches!(self.source, Source::Event(_) | Source::OfEvent(_))
    }
}

/// Room for the places of one span, and its message and name: it never grows.
fn room() -> Result<Vec<Place>, NoRoom> {
    let mut places = Vec::new();
    places
        .try_reserve_exact(MAX_OF_SPAN + 2)
        .map_err(|_| NoRoom)?;
    Ok(places)
}

/// Puts a place after those of its rank.
#[inline(always)]
fn put(places: &mut Vec<Place>, rank: i32, source: Source) {
    places.push(Place { rank, source });
    let mut i = places.len() - 1;
    while i > 0 && places[i - 1].rank > rank {
        places.swap(i - 1, i);
        i -= 1;
    }
}

#[inline(always)]
fn set_once(to: &mut i64, value: i64) {
    if *to == NONE {
        *to = value;
    }
}

#[inline(always)]
fn rows<T>(table: &[T], first: i64, last: i64) -> &[T] {
    &table[first as usize..last as usize]
}

/// The place of words among the sorted keys (-1: not kept), and the roles of the first of them.
pub struct Keys<'a> {
    pub rank: &'a [i32],
    pub role: &'a [i64],
}

impl Keys<'_> {
    #[inline(always)]
    fn role(&self, key: i64) -> i64 {
        self.role.get(key as usize).copied().unwrap_or(0)
    }
    #[inline(always)]
    fn rank(&self, key: i64) -> i32 {
        self.rank[key as usize]
    }
}

pub struct ResourceRows<'a> {
    pub service: &'a mut [i64],
    pub host: &'a mut [i64],
    pub begin: &'a mut [i64],
    pub row: &'a mut [i64],
}

pub fn resources(
    resources: &[Resource],
    attributes: &[Attribute],
    keys: &Keys,
    host_rank: &[i64],
    out: &mut ResourceRows,
) -> Result<(), NoRoom> {
    let mut places = room()?;
    let mut k = 0;
    for (i, resource) in resources.iter().enumerate() {
        out.begin[i] = k as i64;
        let (mut service, mut host, mut host_key, mut best) = (NONE, NONE, NONE, 1 << 30);
        let own = rows(attributes, resource.first, resource.last);
        for attribute in own {
            if keys.role(attribute.key) & role::SERVICE != 0 {
                set_once(&mut service, attribute.text);
            }
            if let Some(&rank) = host_rank.get(attribute.key as usize)
                && rank < best
            {
                (best, host_key, host) = (rank, attribute.key, attribute.text);
            }
        }
        places.clear();
        for (row, attribute) in (resource.first as u32..).zip(own) {
            let rank = keys.rank(attribute.key);
            if rank >= 0
                && attribute.key != host_key
                && keys.role(attribute.key) & role::SERVICE == 0
            {
                put(&mut places, rank, Source::Attribute(row));
            }
        }
        for place in &places {
            if let Source::Attribute(row) = place.source {
                out.row[k] = i64::from(row);
                k += 1;
            }
        }
        (out.service[i], out.host[i]) = (service, host);
    }
    out.begin[resources.len()] = k as i64;
    Ok(())
}

pub struct Tables<'a> {
    pub spans: &'a [Span],
    pub attributes: &'a [Attribute],
    pub events: &'a [Event],
    pub resource_begin: &'a [i64],
    pub resource_row: &'a [i64],
    pub event_rank: &'a [i32],
    pub row_rank: &'a [i32],
    pub changed: &'a [u8],
    pub message_rank: i32,
    pub name_rank: i32,
}

pub struct ParameterRows<'a> {
    pub offsets: &'a mut [i32],
    pub key: &'a mut [i32],
    pub text: &'a mut [i64],
    pub num: &'a mut [f64],
    pub peer: &'a mut [i64],
    pub label: &'a mut [i64],
    pub error: &'a mut [i64],
}

#[derive(Default)]
pub struct Summary {
    pub parameters: usize,
    pub duplicates: i64,
    pub dropped: i64,
}

/// Words of a span that become columns of their own.
struct Own {
    peer: i64,
    label: i64,
    error: i64,
}

pub fn parameters(
    t: &Tables,
    keys: &Keys,
    most: usize,
    out: &mut ParameterRows,
) -> Result<Summary, NoRoom> {
    let mut sum = Summary::default();
    let mut places = room()?;
    for (at, span) in t.spans.iter().enumerate() {
        places.clear();
        let own = own_places(t, keys, span, &mut places);
        (out.peer[at], out.label[at], out.error[at]) = (own.peer, own.label, own.error);
        if span.first_event < span.last_event {
            event_places(t, span, &mut places);
        }
        let resource = span.resource as usize;
        let of_resource = rows(
            t.resource_row,
            t.resource_begin[resource],
            t.resource_begin[resource + 1],
        );
        let begin = sum.parameters;
        let mut last = -1;
        merged(t, keys, &places, of_resource, |rank, source| {
            if rank == last {
                sum.duplicates += 1;
                return;
            }
            last = rank;
            let k = sum.parameters;
            if k - begin >= most {
                sum.dropped += 1;
                return;
            }
            (out.text[k], out.num[k]) = cell(t, span, source);
            out.key[k] = rank;
            sum.parameters = k + 1;
        });
        out.offsets[at] = sum.parameters as i32;
    }
    Ok(sum)
}

#[inline(always)]
fn own_places(t: &Tables, keys: &Keys, span: &Span, places: &mut Vec<Place>) -> Own {
    let is_caller = matches!(span.kind, KIND_CLIENT | KIND_PRODUCER);
    let (mut peer, mut address, mut peer_name, mut label, mut error) =
        (NONE, NONE, NONE, NONE, NONE);
    for (row, attribute) in (span.first as u32..).zip(rows(t.attributes, span.first, span.last)) {
        let roles = keys.role(attribute.key);
        if roles != 0 {
            for (bit, column) in [
                (role::PEER, &mut peer),
                (role::ERROR_TYPE, &mut error),
                (role::LABEL, &mut label),
            ] {
                if roles & bit != 0 {
                    set_once(column, attribute.text);
                }
            }
            if is_caller && roles & role::ADDRESS != 0 {
                set_once(&mut address, attribute.text);
            }
            if is_caller && roles & role::PEER_NAME != 0 {
                set_once(&mut peer_name, attribute.text);
            }
            if roles & role::LABEL != 0 {
                continue;
            }
        }
        let rank = keys.rank(attribute.key);
        if rank >= 0 {
            put(places, rank, Source::Attribute(row));
        }
    }
    set_once(&mut peer, address);
    set_once(&mut peer, peer_name);
    if span.message != EMPTY_WORD && t.message_rank >= 0 {
        put(places, t.message_rank, Source::Message);
    }
    if t.name_rank >= 0 && t.changed[span.name as usize] != 0 {
        put(places, t.name_rank, Source::Name);
    }
    Own { peer, label, error }
}

#[inline(never)]
fn event_places(t: &Tables, span: &Span, places: &mut Vec<Place>) {
    let events = rows(t.events, span.first_event, span.last_event);
    for e in span.first_event as u32..span.last_event as u32 {
        let rank = t.event_rank[e as usize];
        if rank >= 0 {
            put(places, rank, Source::Event(e));
        }
    }
    for event in events {
        for (row, &rank) in (event.first as u32..).zip(rows(t.row_rank, event.first, event.last)) {
            if rank >= 0 {
                put(places, rank, Source::OfEvent(row));
            }
        }
    }
}

/// A span's own places and those of its resource, by rank.
#[inline(always)]
fn merged(
    t: &Tables,
    keys: &Keys,
    own: &[Place],
    of_resource: &[i64],
    mut each: impl FnMut(i32, Source),
) {
    let mut own = own.iter().peekable();
    for &row in of_resource {
        let rank = keys.rank(t.attributes[row as usize].key);
        while let Some(place) = own.next_if(|p| p.rank < rank || p.rank == rank && !p.is_late()) {
            each(place.rank, place.source);
        }
        each(rank, Source::Attribute(row as u32));
    }
    for place in own {
        each(place.rank, place.source);
    }
}

#[inline(always)]
fn cell(t: &Tables, span: &Span, source: Source) -> (i64, f64) {
    match source {
        Source::Attribute(row) | Source::OfEvent(row) => match t.attributes[row as usize].value() {
            Value::Word(text) => (text, 0.0),
            Value::Int(number) => (NUMBER, number as f64),
            Value::Double(number) => (NUMBER, number),
        },
        Source::Message => (span.message, 0.0),
        Source::Name => (span.name, 0.0),
        Source::Event(e) => (
            NUMBER,
            t.events[e as usize].time.wrapping_sub(span.start) as f64,
        ),
    }
}

fn hex<const N: usize>(to: &mut [u8], from: &[u8; N]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (two, &byte) in to.as_chunks_mut::<2>().0.iter_mut().zip(from) {
        *two = [
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ];
    }
}

#[inline(always)]
fn id<const N: usize>(buf: &[u8], at: i64) -> &[u8; N] {
    buf[at as usize..]
        .first_chunk()
        .expect("ids lie in the buffer")
}

/// Ids of spans; how many have a parent.
pub fn ids(
    buf: &[u8],
    spans: &[Span],
    trace: &mut [u8],
    span: &mut [u8],
    parent: &mut [u8],
    has: &mut [u8],
) -> usize {
    let mut parents = parent.as_chunks_mut::<8>().0.iter_mut();
    let room = parents.len();
    let (trace, span) = (trace.as_chunks_mut::<32>().0, span.as_chunks_mut::<8>().0);
    for (((s, trace), span), has) in spans.iter().zip(trace).zip(span).zip(has) {
        hex(trace, id::<16>(buf, s.trace));
        *span = *id(buf, s.span);
        *has = u8::from(s.parent != 0);
        if s.parent != 0
            && let Some(parent) = parents.next()
        {
            *parent = *id(buf, s.parent);
        }
    }
    room - parents.len()
}

pub fn link_texts(buf: &[u8], links: &[Link], out: &mut [u8]) {
    for (link, out) in links.iter().zip(out.as_chunks_mut::<49>().0) {
        hex(&mut out[..32], id::<16>(buf, link.trace));
        out[32] = b'/';
        hex(&mut out[33..], id::<8>(buf, link.id));
    }
}
