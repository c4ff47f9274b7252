//! One pass over the messages: bytes into rows. A message with a byte that is not understood exactly, or with
//! something that only the other reader handles, leaves no row.

use crate::cursor::{Cursor, Once, Wire, tag};
use crate::tables::*;
use crate::words::{Kind, NoRoom, Words};
use Stop::Bad;

/// What words are for, as `tables.py` names it: bits, as one key may have several roles.
pub mod role {
    pub const SERVICE: i64 = 1;
    pub const HOST: i64 = 2;
    pub const LABEL: i64 = 4;
    pub const PEER: i64 = 8;
    pub const ADDRESS: i64 = 16;
    pub const PEER_NAME: i64 = 32;
    pub const ERROR_TYPE: i64 = 64;
    pub const SAMPLER: i64 = 128;
    pub const MARK: i64 = 256;
    /// Values under these keys become columns of text.
    pub const TEXT: i64 = SERVICE | HOST | LABEL | PEER | ADDRESS | PEER_NAME | ERROR_TYPE;
}

/// Tags of `AnyValue`.
pub mod value {
    use crate::cursor::{Wire, tag};
    pub const TEXT: u8 = tag(1, Wire::Sized);
    pub const BOOL: u8 = tag(2, Wire::Varint);
    pub const INT: u8 = tag(3, Wire::Varint);
    pub const DOUBLE: u8 = tag(4, Wire::Fixed64);
    pub const ARRAY: u8 = tag(5, Wire::Sized);
    pub const KEY_VALUES: u8 = tag(6, Wire::Sized);
    pub const BYTES: u8 = tag(7, Wire::Sized);
}

const SECOND: u64 = 1_000_000_000;
const EARLIEST: u64 = 631_152_000 * SECOND;
const LATEST: u64 = 7_258_118_400 * SECOND;
/// Attributes of one owner, and what one span has with its events: more is left to the other reader.
const MAX_OWNED: usize = 512;
pub const MAX_OF_SPAN: usize = 1024;
/// `event.` before a name, a dot behind it.
const EVENT_KEY: usize = 7;
/// A digit becomes `{n}`.
const MAX_GROWTH: usize = 3;
const STATUS_ERROR: u64 = 2;
const LAST_KIND: u64 = 5;

pub struct Walk<'a> {
    pub words: Words<'a>,
    pub attributes: Table<'a, Attribute>,
    pub spans: Table<'a, Span>,
    pub resources: Table<'a, Resource>,
    pub links: Table<'a, Link>,
    pub events: Table<'a, Event>,
    /// [first words] bits of `role`.
    pub roles: &'a [i64],
    /// Bytes of a key at most.
    pub max_name: usize,
}

/// Numbers of rows before a message.
struct Mark {
    attributes: usize,
    spans: usize,
    resources: usize,
    links: usize,
    events: usize,
}

/// Bounds of the numbers of rows with this message: a dense one is left.
struct Limits {
    attributes: usize,
    spans: usize,
    resources: usize,
}

impl<'a> Walk<'a> {
    /// True where all rows of a message were added, false where none was.
    pub fn read(&mut self, bytes: &'a [u8]) -> Result<bool, NoRoom> {
        let mark = self.mark();
        loop {
            let Err(stop) = self.message(bytes) else {
                return Ok(true);
            };
            self.back_to(&mark);
            if stop == Bad || !self.words.has_room() {
                return Ok(false);
            }
            self.words.grow()?;
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            attributes: self.attributes.len(),
            spans: self.spans.len(),
            resources: self.resources.len(),
            links: self.links.len(),
            events: self.events.len(),
        }
    }

    fn back_to(&mut self, mark: &Mark) {
        self.attributes.truncate(mark.attributes);
        self.spans.truncate(mark.spans);
        self.resources.truncate(mark.resources);
        self.links.truncate(mark.links);
        self.events.truncate(mark.events);
    }

    fn message(&mut self, bytes: &'a [u8]) -> Read<()> {
        const RESOURCE_SPANS: u8 = tag(1, Wire::Sized);
        let limits = Limits {
            attributes: self.attributes.len() + bytes.len() / 8,
            spans: self.spans.len() + bytes.len() / 16,
            resources: self.resources.len() + bytes.len() / 16,
        };
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            if tag != RESOURCE_SPANS {
                return Err(Bad);
            }
            self.resource_spans(c.sized().ok_or(Bad)?, &limits)?;
        }
        Ok(())
    }

    fn resource_spans(&mut self, bytes: &'a [u8], limits: &Limits) -> Read<()> {
        const RESOURCE: u8 = tag(1, Wire::Sized);
        const SCOPE_SPANS: u8 = tag(2, Wire::Sized);
        const SCHEMA: u8 = tag(3, Wire::Sized);
        if self.resources.len() >= limits.resources {
            return Err(Bad);
        }
        self.resources.push(Resource::default())?;
        let mut once = Once::default();
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            let body = c.sized().ok_or(Bad)?;
            match tag {
                SCOPE_SPANS => self.scope_spans(body, limits)?,
                RESOURCE => {
                    once.first(0).ok_or(Bad)?;
                    let row = self.resource(body, limits)?;
                    *self.resources.last_mut().ok_or(Bad)? = row;
                }
                SCHEMA => {
                    once.first(1).ok_or(Bad)?;
                    self.words.text(body)?;
                }
                _ => return Err(Bad),
            }
        }
        Ok(())
    }

    fn resource(&mut self, bytes: &'a [u8], limits: &Limits) -> Read<Resource> {
        const ATTRIBUTE: u8 = tag(1, Wire::Sized);
        const DROPPED: u8 = tag(2, Wire::Varint);
        let first = self.attributes.len();
        let mut once = Once::default();
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            match tag {
                ATTRIBUTE => {
                    let body = c.sized().ok_or(Bad)?;
                    if self.attributes.len() >= limits.attributes {
                        return Err(Bad);
                    }
                    self.own_unlike(body, first)?;
                }
                DROPPED => once
                    .first(0)
                    .and_then(|()| c.small())
                    .map(drop)
                    .ok_or(Bad)?,
                _ => return Err(Bad),
            }
        }
        Ok(Resource {
            first: first as i64,
            last: self.attributes.len() as i64,
        })
    }

    fn scope_spans(&mut self, bytes: &'a [u8], limits: &Limits) -> Read<()> {
        const SCOPE: u8 = tag(1, Wire::Sized);
        const SPAN: u8 = tag(2, Wire::Sized);
        const SCHEMA: u8 = tag(3, Wire::Sized);
        let mut once = Once::default();
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            let body = c.sized().ok_or(Bad)?;
            match tag {
                SPAN => {
                    if self.spans.len() >= limits.spans
                        || self.attributes.len() >= limits.attributes
                    {
                        return Err(Bad);
                    }
                    self.span(body)?;
                }
                SCOPE => {
                    once.first(0).ok_or(Bad)?;
                    self.scope(body)?;
                }
                SCHEMA => {
                    once.first(1).ok_or(Bad)?;
                    self.words.text(body)?;
                }
                _ => return Err(Bad),
            }
        }
        Ok(())
    }

    /// Checks a scope, of which nothing is kept.
    fn scope(&mut self, bytes: &'a [u8]) -> Read<()> {
        const NAME: u8 = tag(1, Wire::Sized);
        const VERSION: u8 = tag(2, Wire::Sized);
        const ATTRIBUTE: u8 = tag(3, Wire::Sized);
        const DROPPED: u8 = tag(4, Wire::Varint);
        let mut once = Once::default();
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            match tag {
                NAME | VERSION => {
                    let body = once
                        .first(u32::from(tag == NAME))
                        .and_then(|()| c.sized())
                        .ok_or(Bad)?;
                    self.words.text(body)?;
                }
                ATTRIBUTE => {
                    let body = c.sized().ok_or(Bad)?;
                    self.unlike(body)?;
                }
                DROPPED => once
                    .first(2)
                    .and_then(|()| c.small())
                    .map(drop)
                    .ok_or(Bad)?,
                _ => return Err(Bad),
            }
        }
        Ok(())
    }

    fn span(&mut self, bytes: &'a [u8]) -> Read<()> {
        const TRACE: u8 = tag(1, Wire::Sized);
        const ID: u8 = tag(2, Wire::Sized);
        const STATE: u8 = tag(3, Wire::Sized);
        const PARENT: u8 = tag(4, Wire::Sized);
        const NAME: u8 = tag(5, Wire::Sized);
        const KIND: u8 = tag(6, Wire::Varint);
        const START: u8 = tag(7, Wire::Fixed64);
        const END: u8 = tag(8, Wire::Fixed64);
        const ATTRIBUTE: u8 = tag(9, Wire::Sized);
        const DROPPED_ATTRIBUTES: u8 = tag(10, Wire::Varint);
        const EVENT: u8 = tag(11, Wire::Sized);
        const DROPPED_EVENTS: u8 = tag(12, Wire::Varint);
        const LINK: u8 = tag(13, Wire::Sized);
        const DROPPED_LINKS: u8 = tag(14, Wire::Varint);
        const STATUS: u8 = tag(15, Wire::Sized);
        const FLAGS: [u8; 2] = [0x80 | Wire::Fixed32 as u8, 1]; // 16: two bytes

        let first = self.attributes.len();
        let mut s = Span {
            start: NO_TIME,
            end: NO_TIME,
            name: EMPTY_WORD,
            kind: 0,
            resource: self.resources.len() as i64 - 1,
            first: self.attributes.len() as i64,
            last: self.attributes.len() as i64,
            message: EMPTY_WORD,
            state: EMPTY_WORD,
            failed: 0,
            first_event: self.events.len() as i64,
            last_event: 0,
            trace: 0,
            span: 0,
            parent: 0,
            first_link: self.links.len() as i64,
            last_link: 0,
        };
        let mut label_key = None;
        let mut alike = self
            .spans
            .last_mut()
            .map_or(0..0, |before| before.first as usize..before.last as usize);
        let mut once = Once::default();
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            if tag == ATTRIBUTE {
                let body = c.sized().ok_or(Bad)?;
                if s.last == s.first {
                    s.first = self.attributes.len() as i64; // those of events may stand before
                    s.last = s.first;
                }
                if s.last != self.attributes.len() as i64 {
                    return Err(Bad);
                }
                let like = alike
                    .next()
                    .and_then(|row| self.attributes.rows().get(row))
                    .copied();
                self.own(body, s.first as usize, like.as_ref())?;
                if self.attributes.len() as i64 > s.last {
                    s.last = self.attributes.len() as i64;
                    let key = self.attributes.last_mut().ok_or(Bad)?.key;
                    if self.role(key) & role::LABEL != 0 && *label_key.get_or_insert(key) != key {
                        return Err(Bad); // several labels become one text
                    }
                }
                continue;
            }
            match tag {
                START => s.start = once.first(0).and_then(|()| instant(&mut c)).ok_or(Bad)?,
                END => s.end = once.first(1).and_then(|()| instant(&mut c)).ok_or(Bad)?,
                KIND => {
                    let kind = once.first(2).and_then(|()| c.small()).ok_or(Bad)?;
                    s.kind = if kind <= LAST_KIND { kind as i64 } else { 0 };
                }
                DROPPED_ATTRIBUTES | DROPPED_EVENTS | DROPPED_LINKS => {
                    once.first(u32::from(tag >> 3))
                        .and_then(|()| c.small())
                        .ok_or(Bad)?;
                }
                TRACE => {
                    let id = once
                        .first(3)
                        .and_then(|()| c.sized())
                        .and_then(id_of::<16>)
                        .ok_or(Bad)?;
                    s.trace = self.words.place(id);
                }
                ID => {
                    let id = once
                        .first(4)
                        .and_then(|()| c.sized())
                        .and_then(id_of::<8>)
                        .ok_or(Bad)?;
                    s.span = self.words.place(id);
                }
                PARENT => {
                    let id = once
                        .first(5)
                        .and_then(|()| c.sized())
                        .filter(|id| matches!(id.len(), 0 | 8))
                        .ok_or(Bad)?;
                    s.parent = id_of::<8>(id).map_or(0, |id| self.words.place(id));
                }
                NAME => {
                    let body = once.first(6).and_then(|()| c.sized()).ok_or(Bad)?;
                    s.name = self.words.text(body)?;
                }
                STATE => {
                    let body = once.first(7).and_then(|()| c.sized()).ok_or(Bad)?;
                    s.state = self.words.text(body)?;
                }
                STATUS => {
                    let body = once.first(8).and_then(|()| c.sized()).ok_or(Bad)?;
                    (s.message, s.failed) = self.status(body)?;
                }
                EVENT => {
                    let body = c.sized().ok_or(Bad)?;
                    let row = self.event(body)?;
                    self.events.push(row)?;
                }
                LINK => {
                    let body = c.sized().ok_or(Bad)?;
                    let row = self.link(body)?;
                    self.links.push(row)?;
                }
                _ if tag == FLAGS[0] => {
                    c.byte().filter(|&second| second == FLAGS[1]).ok_or(Bad)?;
                    once.first(9).and_then(|()| c.fixed32()).ok_or(Bad)?;
                }
                _ => return Err(Bad),
            }
        }
        s.last_event = self.events.len() as i64;
        s.last_link = self.links.len() as i64;
        let is_backwards = s.start != NO_TIME && s.end != NO_TIME && s.end < s.start;
        let n_events = s.last_event - s.first_event;
        let is_crowded = self.attributes.len() - first + n_events as usize > MAX_OF_SPAN;
        let is_relative = n_events == 0 || s.start != NO_TIME;
        if s.trace == 0 || s.span == 0 || is_backwards || is_crowded || !is_relative {
            return Err(Bad);
        }
        self.spans.push(s)
    }

    /// The code of a status' message, and 1 for an error.
    fn status(&mut self, bytes: &'a [u8]) -> Read<(i64, i64)> {
        const MESSAGE: u8 = tag(2, Wire::Sized);
        const CODE: u8 = tag(3, Wire::Varint);
        let (mut message, mut failed) = (EMPTY_WORD, 0);
        let mut once = Once::default();
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            match tag {
                CODE => {
                    let code = once.first(0).and_then(|()| c.small()).ok_or(Bad)?;
                    failed = i64::from(code == STATUS_ERROR);
                }
                MESSAGE => {
                    let body = once.first(1).and_then(|()| c.sized()).ok_or(Bad)?;
                    message = self.words.text(body)?;
                }
                _ => return Err(Bad),
            }
        }
        Ok((message, failed))
    }

    /// An event of the span that is read.
    fn event(&mut self, bytes: &'a [u8]) -> Read<Event> {
        const TIME: u8 = tag(1, Wire::Fixed64);
        const NAME: u8 = tag(2, Wire::Sized);
        const ATTRIBUTE: u8 = tag(3, Wire::Sized);
        const DROPPED: u8 = tag(4, Wire::Varint);
        let first = self.attributes.len();
        let (mut time, mut name) = (NO_TIME, EMPTY_WORD);
        let mut once = Once::default();
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            match tag {
                TIME => {
                    let raw = once.first(0).and_then(|()| c.fixed64()).ok_or(Bad)?;
                    time = i64::try_from(raw).ok().filter(|&ns| ns != 0).ok_or(Bad)?;
                }
                NAME => {
                    let body = once.first(1).and_then(|()| c.sized()).ok_or(Bad)?;
                    name = self.words.text(body)?;
                }
                ATTRIBUTE => {
                    let body = c.sized().ok_or(Bad)?;
                    self.own_unlike(body, first)?;
                }
                DROPPED => once
                    .first(2)
                    .and_then(|()| c.small())
                    .map(drop)
                    .ok_or(Bad)?,
                _ => return Err(Bad),
            }
        }
        let (size, has_nul) = self.words.size_and_nul(name);
        let growth = if self.words.may_be_normalised(name) {
            MAX_GROWTH
        } else {
            1
        };
        let prefix = EVENT_KEY + growth * size;
        let own = self
            .attributes
            .rows()
            .get(first..self.attributes.len())
            .ok_or(Bad)?;
        let longest = own
            .iter()
            .map(|row| self.words.size_and_nul(row.key).0)
            .max();
        let is_long = prefix + longest.unwrap_or(0) > self.max_name;
        if time == NO_TIME || has_nul || is_long || self.role(name) & role::MARK != 0 {
            return Err(Bad);
        }
        Ok(Event {
            span: self.spans.len() as i64,
            time,
            name,
            first: first as i64,
            last: self.attributes.len() as i64,
        })
    }

    /// A link of the span that is read.
    fn link(&mut self, bytes: &'a [u8]) -> Read<Link> {
        const TRACE: u8 = tag(1, Wire::Sized);
        const ID: u8 = tag(2, Wire::Sized);
        const STATE: u8 = tag(3, Wire::Sized);
        const ATTRIBUTE: u8 = tag(4, Wire::Sized);
        const DROPPED: u8 = tag(5, Wire::Varint);
        const FLAGS: u8 = tag(6, Wire::Fixed32);
        let (mut trace, mut id) = (0, 0);
        let mut once = Once::default();
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            match tag {
                TRACE => {
                    let body = once
                        .first(0)
                        .and_then(|()| c.sized())
                        .and_then(id_of::<16>)
                        .ok_or(Bad)?;
                    trace = self.words.place(body);
                }
                ID => {
                    let body = once
                        .first(1)
                        .and_then(|()| c.sized())
                        .and_then(id_of::<8>)
                        .ok_or(Bad)?;
                    id = self.words.place(body);
                }
                STATE => {
                    let body = once.first(2).and_then(|()| c.sized()).ok_or(Bad)?;
                    self.words.text(body)?;
                }
                ATTRIBUTE => {
                    let body = c.sized().ok_or(Bad)?;
                    self.unlike(body)?;
                }
                DROPPED => once
                    .first(3)
                    .and_then(|()| c.small())
                    .map(drop)
                    .ok_or(Bad)?,
                FLAGS => once
                    .first(4)
                    .and_then(|()| c.fixed32())
                    .map(drop)
                    .ok_or(Bad)?,
                _ => return Err(Bad),
            }
        }
        if trace == 0 || id == 0 {
            Err(Bad)
        } else {
            Ok(Link {
                span: self.spans.len() as i64,
                trace,
                id,
            })
        }
    }

    #[inline(never)]
    fn unlike(&mut self, bytes: &'a [u8]) -> Read<Option<Attribute>> {
        self.attribute(bytes, None)
    }

    #[inline(never)]
    fn own_unlike(&mut self, bytes: &'a [u8], first: usize) -> Read<()> {
        self.own(bytes, first, None)
    }

    /// Adds an attribute that has a value; its owner has those from `first` on.
    #[inline(always)]
    fn own(&mut self, bytes: &'a [u8], first: usize, like: Option<&Attribute>) -> Read<()> {
        if self.attributes.len() - first >= MAX_OWNED {
            return Err(Bad);
        }
        match self.attribute(bytes, like)? {
            Some(row) => self.attributes.push(row),
            None => Ok(()),
        }
    }

    /// `None` for one without a value. `like` has probably the same words.
    #[inline(always)]
    fn attribute(&mut self, bytes: &'a [u8], like: Option<&Attribute>) -> Read<Option<Attribute>> {
        const KEY: u8 = tag(1, Wire::Sized);
        const VALUE: u8 = tag(2, Wire::Sized);
        let mut key = EMPTY_WORD;
        let mut value = None;
        let mut once = Once::default();
        let mut c = Cursor::new(bytes);
        while let Some(tag) = c.byte() {
            let body = c.sized().ok_or(Bad)?;
            match tag {
                KEY => {
                    once.first(0).ok_or(Bad)?;
                    key = self.words.guessed(body, like.map(|like| like.key))?;
                }
                VALUE => {
                    once.first(1).ok_or(Bad)?;
                    value = self.value(body, like.map(|like| like.text))?;
                }
                _ => return Err(Bad),
            }
        }
        let (size, has_nul) = self.words.size_and_nul(key);
        let role = self.role(key);
        let is_text = matches!(value, None | Some(Value::Word(_)));
        if has_nul
            || size > self.max_name
            || role & role::SAMPLER != 0
            || role & role::TEXT != 0 && !is_text
        {
            return Err(Bad);
        }
        Ok(value.map(|value| value.row(key)))
    }

    #[inline(always)]
    fn role(&self, word: i64) -> i64 {
        self.roles.get(word as usize).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn value(&mut self, bytes: &'a [u8], guess: Option<i64>) -> Read<Option<Value>> {
        use value::{ARRAY, BOOL, BYTES, DOUBLE, INT, KEY_VALUES, TEXT};
        let mut c = Cursor::new(bytes);
        let Some(tag) = c.byte() else { return Ok(None) };
        if tag == TEXT {
            let text = c.sized().ok_or(Bad)?;
            c.end().ok_or(Bad)?;
            return self
                .words
                .guessed(text, guess)
                .map(|text| Some(Value::Word(text)));
        }
        let value = match tag {
            INT => Value::Int(c.varint().ok_or(Bad)?.cast_signed()),
            BOOL => match c.byte() {
                Some(0) => Value::Word(FALSE),
                Some(1) => Value::Word(TRUE),
                _ => return Err(Bad),
            },
            DOUBLE => match c.fixed64().map(f64::from_bits).ok_or(Bad)? {
                number if number.is_nan() => Value::Word(NAN),
                f64::INFINITY => Value::Word(PLUS),
                f64::NEG_INFINITY => Value::Word(MINUS),
                number => Value::Double(number),
            },
            ARRAY | KEY_VALUES | BYTES => {
                let body = c.sized().ok_or(Bad)?;
                c.end().ok_or(Bad)?;
                let kind = match tag {
                    ARRAY => Kind::Array,
                    KEY_VALUES => Kind::KeyValues,
                    _ if body.is_empty() => Kind::Text,
                    _ => Kind::Bytes,
                };
                Value::Word(self.words.code(body, kind)?)
            }
            _ => return Err(Bad),
        };
        c.end().ok_or(Bad)?;
        Ok(Some(value))
    }
}

/// Nanoseconds, `NO_TIME` for 0; `None` outside of 1990 to 2200.
#[inline(always)]
pub fn instant(c: &mut Cursor) -> Option<i64> {
    match c.fixed64()? {
        0 => Some(NO_TIME),
        nanos => (EARLIEST..LATEST).contains(&nanos).then_some(nanos as i64),
    }
}

/// `None` for an id of another length, or of zeros.
#[inline(always)]
pub fn id_of<const N: usize>(bytes: &[u8]) -> Option<&[u8]> {
    let id: &[u8; N] = bytes.try_into().ok()?;
    (*id != [0; N]).then_some(id)
}
