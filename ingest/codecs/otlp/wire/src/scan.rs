//! Checks a message without rows or memory: that protobuf's own parser reads it, and ids and times of its spans.

use crate::cursor::{Cursor, Wire, tag};
use crate::tables::NO_TIME;
use crate::walk::{id_of, instant};
use std::str;

/// A larger span, or all of a resource, may have too many fields: the decoder counts them.
const MAX_BYTES: usize = 1 << 17;
/// Protobuf stops at 100.
const MAX_DEPTH: usize = 16;

/// What protobuf's parser checks of a field beyond its length. Of others it checks no more than that.
#[derive(Clone, Copy)]
enum Check {
    Text,
    Inner(&'static Message),
}

/// The tags of a message whose content is checked.
struct Message(&'static [(u8, Check)]);

const fn text(field: u8) -> (u8, Check) {
    (tag(field, Wire::Sized), Check::Text)
}

const fn inner(field: u8, message: &'static Message) -> (u8, Check) {
    (tag(field, Wire::Sized), Check::Inner(message))
}

static VALUES: Message = Message(&[inner(1, &VALUE)]);
static PAIRS: Message = Message(&[inner(1, &PAIR)]);
static VALUE: Message = Message(&[text(1), inner(5, &VALUES), inner(6, &PAIRS)]);
static PAIR: Message = Message(&[text(1), inner(2, &VALUE)]);
static ENTITY: Message = Message(&[text(1), text(2), text(3), text(4)]);
static RESOURCE: Message = Message(&[inner(1, &PAIR), inner(3, &ENTITY)]);
static SCOPE: Message = Message(&[text(1), text(2), inner(3, &PAIR)]);
static EVENT: Message = Message(&[text(2), inner(3, &PAIR)]);
static LINK: Message = Message(&[text(3), inner(4, &PAIR)]);
static STATUS: Message = Message(&[text(2)]);
static SPAN: Message = Message(&[
    inner(9, &PAIR),
    text(5),
    text(3),
    inner(15, &STATUS),
    inner(11, &EVENT),
    inner(13, &LINK),
]);

/// True where protobuf reads the message, and the decoder accepts ids and times of every span. False where it does not,
/// or where only they can tell.
pub fn is_sound(bytes: &[u8]) -> bool {
    const RESOURCE_SPANS: u8 = tag(1, Wire::Sized);
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        if tag != RESOURCE_SPANS || c.sized().and_then(resource_spans).is_none() {
            return false;
        }
    }
    true
}

fn resource_spans(bytes: &[u8]) -> Option<()> {
    const OF_RESOURCE: u8 = tag(1, Wire::Sized);
    const SCOPE_SPANS: u8 = tag(2, Wire::Sized);
    static CHECKED: Message = Message(&[text(3)]);
    let mut c = Cursor::new(bytes);
    let mut room = MAX_BYTES;
    while let Some(tag) = c.byte() {
        match tag {
            OF_RESOURCE => {
                let part = c.sized()?;
                room = room.checked_sub(part.len())?;
                fields(part, &RESOURCE, 1)?;
            }
            SCOPE_SPANS => scope_spans(c.sized()?)?,
            _ => field(&mut c, tag, &CHECKED, 0)?,
        }
    }
    Some(())
}

fn scope_spans(bytes: &[u8]) -> Option<()> {
    const SPANS: u8 = tag(2, Wire::Sized);
    static CHECKED: Message = Message(&[inner(1, &SCOPE), text(3)]);
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        match tag {
            SPANS => span(c.sized()?)?,
            _ => field(&mut c, tag, &CHECKED, 0)?,
        }
    }
    Some(())
}

fn span(bytes: &[u8]) -> Option<()> {
    const TRACE: u8 = tag(1, Wire::Sized);
    const ID: u8 = tag(2, Wire::Sized);
    const PARENT: u8 = tag(4, Wire::Sized);
    const START: u8 = tag(7, Wire::Fixed64);
    const END: u8 = tag(8, Wire::Fixed64);
    if bytes.len() > MAX_BYTES {
        return None;
    }
    let (mut has_trace, mut has_id) = (false, false);
    let (mut start, mut end) = (NO_TIME, NO_TIME);
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        match tag {
            TRACE => {
                id_of::<16>(c.sized()?)?;
                has_trace = true;
            }
            ID => {
                id_of::<8>(c.sized()?)?;
                has_id = true;
            }
            PARENT => {
                c.sized().filter(|id| matches!(id.len(), 0 | 8))?;
            }
            START => start = instant(&mut c)?,
            END => end = instant(&mut c)?,
            _ => field(&mut c, tag, &SPAN, 0)?,
        }
    }
    let is_backwards = start != NO_TIME && end != NO_TIME && end < start;
    (has_trace && has_id && !is_backwards).then_some(())
}

/// Checks one field, after the first byte of its tag.
#[inline(always)]
fn field(c: &mut Cursor, tag: u8, of: &Message, depth: usize) -> Option<()> {
    match of.0.iter().find(|(known, _)| *known == tag) {
        Some((_, Check::Text)) => str::from_utf8(c.sized()?).ok().map(drop),
        Some((_, Check::Inner(message))) => fields(c.sized()?, message, depth + 1),
        None => c.skip(tag),
    }
}

fn fields(bytes: &[u8], of: &Message, depth: usize) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut c = Cursor::new(bytes);
    while let Some(tag) = c.byte() {
        field(&mut c, tag, of, depth)?;
    }
    Some(())
}
