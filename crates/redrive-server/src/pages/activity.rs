//! Charts of attempts, for the overview and for each place.

use jiff::Timestamp;
use maud::{Markup, html};
use redrive_ops::views::{ActivityPlace, ActivityRange, ActivityView};
use redrive_store::UnitKind;

use super::{charts, parts::address};

/// Where a chart is: the path of the page, and the place that it was asked for.
pub(super) struct ChartPage<'a> {
    pub(super) path: &'a str,
    pub(super) place: Option<&'a ActivityPlace>,
    /// Places to choose from; none where the page is about one place.
    pub(super) choices: &'a [ActivityPlace],
}

impl ChartPage<'_> {
    /// A chart with links to other ranges.
    pub(super) fn show(&self, activity: &ActivityView) -> Markup {
        let range = |range: ActivityRange| {
            let place = self.place.filter(|_| !self.choices.is_empty());
            let place = place.map(|place| ("place", place.to_string()));
            let range = ("range", range.name().to_owned());
            address(self.path, [range].into_iter().chain(place))
        };
        html! {
            div.ranges {
                nav aria-label="Range of the chart" { @for it in ActivityRange::ALL {
                    a href=(range(it)) aria-current=[(it == activity.span).then_some("true")] { (it.name()) }
                } }
                @if !self.choices.is_empty() { (self.place_form(activity)) }
            }
            (charts::activity(activity, |since, until| failures(self.place, since, until)))
        }
    }

    fn place_form(&self, activity: &ActivityView) -> Markup {
        html! {
            form.filters method="get" action=(self.path) {
                input type="hidden" name="range" value=(activity.range);
                label { "Place" select name="place" {
                    option value="" { "all" }
                    @for place in self.choices {
                        option value=(place) selected[self.place == Some(place)] { (place.noun()) " " (place.name) }
                    }
                } }
                button type="submit" { "Show" }
            }
        }
    }
}

/// The list of the units whose last failure was in a period.
fn failures(place: Option<&ActivityPlace>, since: Timestamp, until: Timestamp) -> String {
    let Some(place) = place else { return address("/causes", [("since", since.to_string())]) };
    let period = [("failed_since", since.to_string()), ("failed_until", until.to_string())];
    let (path, terms) = units_of(place);
    address(path, terms.into_iter().chain(period))
}

/// The list of the units of a place, and its terms.
pub(super) fn units_of(place: &ActivityPlace) -> (&'static str, Vec<(&'static str, String)>) {
    let name = place.name.clone();
    match place.kind {
        UnitKind::Run => ("/runs", vec![("queue", name)]),
        UnitKind::Partition => ("/partitions", vec![("source", name)]),
        UnitKind::Item => ("/uploads", vec![("upload", name)]),
        UnitKind::Sample => {
            let (pipeline, stage) = name.split_once('/').unwrap_or((&name, ""));
            let stage = Some(("stage", stage.to_owned())).filter(|(_, stage)| !stage.is_empty());
            let pipeline = [("pipeline", pipeline.to_owned())];
            ("/dead-letters", pipeline.into_iter().chain(stage).collect())
        }
    }
}
