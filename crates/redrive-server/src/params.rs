//! Parameters of lists and actions: of a query, a form or a JSON body, all read by the declaration of a resource.

use redrive_ops::{ActionOptions, Changeable, Resource, TermText};
use redrive_store::{PageOrder, Selection, SelectionTerm};
use serde_json::Value;

use crate::{api::PlanApplyRequest, problem::ProblemDetails};

/// The parameters of a list on a page besides its selection.
pub(crate) const OF_PAGES: &[&str] = &["after", "before", "last", "order"];
/// The parameters of a list besides its selection.
pub(crate) const OF_LISTS: &[&str] = &["limit", "after"];
/// Of a list whose rows have data that is left out unless asked.
pub(crate) const OF_LISTS_WITH_DATA: &[&str] = &["limit", "after", "data"];
/// Of a list that may be sorted by time.
pub(crate) const OF_NEWEST: &[&str] = &["limit", "after", "newest"];

/// The parameters of an action besides its selection.
pub(crate) fn of_action<R: Changeable>(name: &str) -> Vec<&'static str> {
    let options = R::action(name).map_or(&[][..], |action| action.options);
    let of_all = ["ids", "all", "dry_run", "keep", "reason"];
    let of_plan = ["canary", "pace", "ramp", "abort_if"];
    let own = options.iter().map(|option| option.name);
    of_all.into_iter().chain(of_plan).chain(own).collect()
}

/// The name of an order.
pub(crate) fn order_name(order: PageOrder) -> &'static str {
    match order {
        PageOrder::Ascending => "asc",
        PageOrder::Descending => "desc",
    }
}

/// Names and values as they came.
pub(crate) type Pairs = Vec<(String, String)>;

#[derive(Debug)]
pub(crate) struct Params<R: Resource> {
    pub(crate) selection: Selection,
    pub(crate) names_state: bool,
    pub(crate) ids: Vec<R::Id>,
    /// Whether everything is meant if there is no term.
    pub(crate) all: bool,
    pub(crate) options: ActionOptions,
    pub(crate) dry_run: bool,
    /// Whether the plan of an action is kept as a draft.
    pub(crate) keep: bool,
    /// How the plan of an action is applied.
    pub(crate) apply: PlanApplyRequest,
    pub(crate) reason: Option<String>,
    pub(crate) limit: Option<u32>,
    pub(crate) after: Option<R::Id>,
    /// The page that ends before this unit.
    pub(crate) before: Option<R::Id>,
    /// The last page.
    pub(crate) last: bool,
    pub(crate) order: Option<PageOrder>,
    /// The query of the list whose rows were selected.
    pub(crate) list: Option<String>,
    pub(crate) with_data: bool,
    pub(crate) newest: bool,
}

impl<R: Resource> Params<R> {
    /// Reads what the resource declares, and `others`. Unknown names are refused: ignoring a filter would select too
    /// much.
    pub(crate) fn read(pairs: &Pairs, others: &[&str]) -> Result<Self, ProblemDetails> {
        let mut params = Self {
            selection: Selection { state: R::STATE, ..Selection::default() },
            names_state: false,
            ids: Vec::new(),
            all: false,
            options: ActionOptions::default(),
            dry_run: false,
            keep: false,
            apply: PlanApplyRequest::default(),
            reason: None,
            limit: None,
            after: None,
            before: None,
            last: false,
            order: None,
            list: None,
            with_data: false,
            newest: false,
        };
        for (name, value) in pairs {
            let is_state = matches!(name.as_str(), "state" | "status");
            if is_state && params.names_state {
                let what = format!("{name}: the state is given more than once");
                return Err(ProblemDetails::bad_request(what).allowed("one `state`"));
            }
            params.names_state |= is_state;
            if others.contains(&name.as_str()) {
                params.set(name, value)?;
            } else if !set_term::<R>(&mut params.selection, name, value)? {
                let terms = R::TERMS.iter().map(|term| term.name());
                let allowed: Vec<&str> =
                    terms.chain(["state"]).chain(others.iter().copied()).collect();
                let what = format!("unknown field `{name}`");
                return Err(ProblemDetails::bad_request(what).allowed(allowed.join(", ")));
            }
        }
        Ok(params)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), ProblemDetails> {
        match name {
            "ids" => self.ids.push(id::<R>(name, value)?),
            "after" => self.after = Some(id::<R>(name, value)?),
            "list" if value.chars().all(|c| c.is_ascii_graphic()) => {
                self.list = Some(value.to_owned())
            }
            "before" => self.before = Some(id::<R>(name, value)?),
            "last" => self.last = flag(name, value)?,
            "order" => {
                let orders = [PageOrder::Ascending, PageOrder::Descending];
                let order = orders.into_iter().find(|order| order_name(*order) == value);
                self.order = Some(order.ok_or_else(|| invalid(name, value).allowed("asc, desc"))?);
            }
            "limit" => self.limit = Some(parsed(name, value, "a number")?),
            "data" => self.with_data = flag(name, value)?,
            "newest" => self.newest = flag(name, value)?,
            "all" => self.all = flag(name, value)?,
            "dry_run" => self.dry_run = flag(name, value)?,
            "keep" => self.keep = flag(name, value)?,
            "canary" => self.apply.canary = Some(parsed(name, value, "a number of units")?),
            "pace" => self.apply.pace = Some(value.to_owned()),
            "ramp" => self.apply.ramp = Some(value.to_owned()),
            "abort_if" => self.apply.abort_if = Some(value.to_owned()),
            "reason" => self.reason = Some(value.to_owned()),
            _ => {
                let invalid = |allowed| invalid(name, value).allowed(allowed);
                self.options.set(name, value).map_err(invalid)?;
            }
        }
        Ok(())
    }

    /// The given units, terms and options, as they are written in an address or a form.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = selection_fields::<R>(&self.selection);
        fields.extend(self.all.then(|| ("all", "true".to_owned())));
        fields.extend(self.options.given());
        fields.extend(self.ids.iter().map(|id| ("ids", id.to_string())));
        fields.extend(self.list.clone().map(|list| ("list", list)));
        fields
    }
}

/// The terms of a selection, as they are written in an address.
pub(crate) fn selection_fields<R: Resource>(selection: &Selection) -> Vec<(&'static str, String)> {
    let term = |term: &SelectionTerm| Some((term.name(), selection.value(*term)?.to_string()));
    let mut fields: Vec<(&'static str, String)> = R::TERMS.iter().filter_map(term).collect();
    let state = selection.state.filter(|_| selection.state != R::STATE);
    let state = R::STATES.iter().find(|(_, known)| Some(*known) == state);
    fields.extend(state.map(|(name, _)| ("state", (*name).to_owned())));
    fields
}

/// Whether the name is a term of the resource.
fn set_term<R: Resource>(
    selection: &mut Selection,
    name: &str,
    value: &str,
) -> Result<bool, ProblemDetails> {
    if matches!(name, "state" | "status") {
        let named = value.replace('-', "_");
        let state = R::STATES.iter().find(|(name, _)| *name == named);
        let names = || R::STATES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let (_, state) = state.ok_or_else(|| invalid(name, value).allowed(names()))?;
        selection.state = Some(*state);
        return Ok(true);
    }
    let Some(term) = R::TERMS.iter().find(|term| term.name() == name) else { return Ok(false) };
    TermText::set(selection, *term, value)
        .map_err(|allowed| invalid(name, value).allowed(allowed))?;
    Ok(true)
}

/// The fields of a JSON body as pairs; of an array, one for each element.
pub(crate) fn of_json(body: Value) -> Result<Pairs, ProblemDetails> {
    let Value::Object(fields) = body else {
        return Err(ProblemDetails::bad_request("the body must be a JSON object"));
    };
    let mut pairs = Vec::new();
    for (name, value) in fields {
        let values = match value {
            Value::Null => continue,
            Value::Array(values) if name == "ids" => values,
            value => vec![value],
        };
        for value in values {
            let text = match value {
                Value::String(text) => text,
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                _ => return Err(ProblemDetails::bad_request(format!("{name}: invalid value"))),
            };
            pairs.push((name.clone(), text));
        }
    }
    Ok(pairs)
}

/// Takes the value of a parameter that is read by itself.
pub(crate) fn take(pairs: &mut Pairs, name: &str) -> Option<String> {
    let at = pairs.iter().position(|(given, _)| given == name)?;
    Some(pairs.remove(at).1)
}

/// The fields of a form that are filled in.
pub(crate) fn of_form(pairs: Pairs) -> Pairs {
    let given = pairs.into_iter().map(|(name, value)| (name, value.trim().to_owned()));
    given.filter(|(_, value)| !value.is_empty()).collect()
}

fn id<R: Resource>(name: &str, value: &str) -> Result<R::Id, ProblemDetails> {
    R::parse_id(value).map_err(|allowed| invalid(name, value).allowed(allowed))
}

fn flag(name: &str, value: &str) -> Result<bool, ProblemDetails> {
    parsed(name, value, "true, false")
}

fn parsed<T: std::str::FromStr>(
    name: &str,
    value: &str,
    allowed: &str,
) -> Result<T, ProblemDetails> {
    value.parse().map_err(|_| invalid(name, value).allowed(allowed))
}

fn invalid(name: &str, value: &str) -> ProblemDetails {
    ProblemDetails::bad_request(format!("{name}: invalid value {value:?}"))
}
