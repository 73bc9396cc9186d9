//! Generators: functions that produce random or current values. Time and seed are passed in.

use fake::Fake;
use fake::faker::creditcard::en::CreditCardNumber;
use fake::faker::name::en::{FirstName, LastName};
use jiff::Zoned;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::date;
use super::item::Item;
use crate::number::Number;
use crate::time::Timestamp;
use crate::value::{Inferred, Value, infer};

/// The functions, with the minimum and maximum number of arguments.
pub(crate) const FUNCTIONS: [(&str, usize, usize); 12] = [
    ("uuid", 0, 0),
    ("firstName", 0, 0),
    ("lastName", 0, 0),
    ("fullName", 0, 0),
    ("email", 0, 0),
    ("phone", 0, 0),
    ("creditCard", 0, 0),
    ("creditCardCvv", 0, 0),
    ("creditCardExpDate", 0, 0),
    ("randomInt", 2, 2),
    ("date", 0, 1),
    ("dateTime", 0, 1),
];

/// Generates values. The same time and seed give the same values in the same order.
#[derive(Debug, Clone)]
pub struct Generator {
    now: Zoned,
    random: StdRng,
}

impl Generator {
    /// Makes a generator with this time and seed.
    pub fn new(now: Zoned, seed: u64) -> Self {
        Self { now, random: StdRng::seed_from_u64(seed) }
    }

    /// Makes a generator with this time, in UTC, and this seed.
    pub fn in_utc(now: Timestamp, seed: u64) -> Self {
        let now = jiff::Timestamp::from_nanosecond(i128::from(now.as_nanos())).unwrap_or_default();
        Self::new(now.to_zoned(jiff::tz::TimeZone::UTC), seed)
    }

    /// Calls the function with this name; `None` when there is none.
    pub(crate) fn call(&mut self, name: &str, arguments: &[Item]) -> Option<Result<Item, String>> {
        let (_, least, most) = FUNCTIONS.iter().find(|(known, ..)| *known == name)?;
        if !(*least..=*most).contains(&arguments.len()) {
            let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
            return Some(Err(format!("{name} takes {expected} arguments, got {}", arguments.len())));
        }
        let text = match name {
            "uuid" => uuid::Builder::from_random_bytes(self.random.random()).into_uuid().to_string(),
            "firstName" => self.first_name(),
            "lastName" => self.last_name(),
            "fullName" => format!("{} {}", self.first_name(), self.last_name()),
            "email" => self.email(),
            "phone" => self.digits(10),
            "creditCard" => self.credit_card(),
            "creditCardCvv" => self.digits(3),
            "creditCardExpDate" => self.expiry(),
            "randomInt" => match self.random_int(arguments) {
                Ok(number) => number.to_string(),
                Err(error) => return Some(Err(error)),
            },
            date_or_time => {
                let default = if date_or_time == "date" { "YYYY-MM-DD" } else { "YYYY-MM-DDThh:mm:ssZZ" };
                match arguments.first().map_or(Ok(default.to_owned()), string_argument) {
                    Ok(format) => date::format(&self.now, &format),
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        Some(Ok(Item::plain(text)))
    }

    fn first_name(&mut self) -> String {
        FirstName().fake_with_rng(&mut self.random)
    }

    fn last_name(&mut self) -> String {
        LastName().fake_with_rng(&mut self.random)
    }

    fn email(&mut self) -> String {
        const ENDINGS: [&str; 6] = ["com", "net", "org", "info", "biz", "io"];
        let letters = |name: String| -> String {
            name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
        };
        let (first, last, host) = (self.first_name(), self.last_name(), self.last_name());
        let ending = ENDINGS[self.random.random_range(0..ENDINGS.len())];
        format!("{}{}@{}.{ending}", letters(first), letters(last), letters(host))
    }

    /// Generates digits of which the first is not zero.
    fn digits(&mut self, count: usize) -> String {
        let digit = |at: usize, random: &mut StdRng| random.random_range(u8::from(at == 0)..10);
        (0..count).map(|at| char::from(b'0' + digit(at, &mut self.random))).collect()
    }

    fn credit_card(&mut self) -> String {
        let number: String = CreditCardNumber().fake_with_rng(&mut self.random);
        number.chars().filter(char::is_ascii_digit).collect()
    }

    fn expiry(&mut self) -> String {
        let month = self.random.random_range(1..=12);
        let year = i32::from(self.now.year()) + self.random.random_range(1..=10);
        format!("{month:02}/{:02}", year % 100)
    }

    fn random_int(&mut self, arguments: &[Item]) -> Result<i64, String> {
        let bound = |at: usize| {
            let text = arguments[at].text();
            let is_single = !matches!(arguments[at].value, Value::List(_));
            let number = Number::parse(&text).filter(|_| is_single && infer(&text) == Inferred::Number);
            number.and_then(Number::to_i64).ok_or_else(|| {
                format!(
                    "argument {at} of randomInt must be a whole number, got {}",
                    arguments[at].type_name()
                )
            })
        };
        let (low, high) = (bound(0)?, bound(1)?);
        Ok(self.random.random_range(low.min(high)..=low.max(high)))
    }
}

fn string_argument(argument: &Item) -> Result<String, String> {
    let wrong = || Err(format!("the format must be a text, got {}", argument.value.type_name()));
    match &argument.value {
        Value::String(text) if infer(text) == Inferred::Text => Ok(text.to_string()),
        _ => wrong(),
    }
}
