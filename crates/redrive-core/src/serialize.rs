//! Ids, names and days in JSON, and their schemas.

use serde::{Serialize, Serializer};

use crate::{
    AttemptNumber, ItemId, ItemStatus, LogicalDate, PartitionRunId, PartitionStatus, PipelineRunId,
    PipelineStatus, PlanId, PlanStatus, RunId, RunStatus, SampleId, SampleStatus,
};

macro_rules! as_number {
    ($($type:ident)+) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }
    )+};
}

macro_rules! as_text {
    ($($type:ident)+) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+};
}

/// A name of a fixed set.
macro_rules! as_name {
    ($($type:ident)+) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let names = $type::ALL.map($type::name);
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some(names))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $type {}
    )+};
}

as_number!(AttemptNumber ItemId PipelineRunId PlanId RunId SampleId);
as_text!(LogicalDate PartitionRunId);
as_name!(ItemStatus PartitionStatus PipelineStatus PlanStatus RunStatus SampleStatus);
