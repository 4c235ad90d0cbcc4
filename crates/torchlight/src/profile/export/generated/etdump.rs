pub use root::*;

const _: () = ::planus::check_version_compatibility("planus-1.3.0");

/// The root namespace
///
/// Generated from these locations:
/// * File `schema/etdump.fbs`
#[no_implicit_prelude]
#[allow(clippy::needless_lifetimes)]
mod root {
    /// The table `ProfileEvent`
    ///
    /// Generated from these locations:
    /// * Table `ProfileEvent` in the file `schema/etdump.fbs:5`
    #[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash)]
    pub struct ProfileEvent {
        /// The field `name` in the table `ProfileEvent`
        pub name: ::core::option::Option<::planus::alloc::string::String>,
        /// The field `chain_index` in the table `ProfileEvent`
        pub chain_index: i32,
        /// The field `instruction_id` in the table `ProfileEvent`
        pub instruction_id: i32,
        /// The field `delegate_debug_id_int` in the table `ProfileEvent`
        pub delegate_debug_id_int: i32,
        /// The field `delegate_debug_id_str` in the table `ProfileEvent`
        pub delegate_debug_id_str: ::core::option::Option<::planus::alloc::string::String>,
        /// The field `delegate_debug_metadata` in the table `ProfileEvent`
        pub delegate_debug_metadata: ::core::option::Option<::planus::alloc::vec::Vec<u8>>,
        /// The field `start_time` in the table `ProfileEvent`
        pub start_time: u64,
        /// The field `end_time` in the table `ProfileEvent`
        pub end_time: u64,
    }

    #[allow(clippy::derivable_impls)]
    impl ::core::default::Default for ProfileEvent {
        fn default() -> Self {
            Self {
                name: ::core::default::Default::default(),
                chain_index: 0,
                instruction_id: -1,
                delegate_debug_id_int: -1,
                delegate_debug_id_str: ::core::default::Default::default(),
                delegate_debug_metadata: ::core::default::Default::default(),
                start_time: 0,
                end_time: 0,
            }
        }
    }

    impl ProfileEvent {
        /// Creates a [ProfileEventBuilder] for serializing an instance of this table.
        #[inline]
        pub fn builder() -> ProfileEventBuilder<()> {
            ProfileEventBuilder(())
        }

        #[allow(clippy::too_many_arguments)]
        pub fn create(
            builder: &mut ::planus::Builder,
            field_name: impl ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
            field_chain_index: impl ::planus::WriteAsDefault<i32, i32>,
            field_instruction_id: impl ::planus::WriteAsDefault<i32, i32>,
            field_delegate_debug_id_int: impl ::planus::WriteAsDefault<i32, i32>,
            field_delegate_debug_id_str: impl ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
            field_delegate_debug_metadata: impl ::planus::WriteAsOptional<::planus::Offset<[u8]>>,
            field_start_time: impl ::planus::WriteAsDefault<u64, u64>,
            field_end_time: impl ::planus::WriteAsDefault<u64, u64>,
        ) -> ::planus::Offset<Self> {
            let prepared_name = field_name.prepare(builder);
            let prepared_chain_index = field_chain_index.prepare(builder, &0);
            let prepared_instruction_id = field_instruction_id.prepare(builder, &-1);
            let prepared_delegate_debug_id_int = field_delegate_debug_id_int.prepare(builder, &-1);
            let prepared_delegate_debug_id_str = field_delegate_debug_id_str.prepare(builder);
            let prepared_delegate_debug_metadata = field_delegate_debug_metadata.prepare(builder);
            let prepared_start_time = field_start_time.prepare(builder, &0);
            let prepared_end_time = field_end_time.prepare(builder, &0);

            let mut table_writer: ::planus::table_writer::TableWriter<20> = ::core::default::Default::default();
            if prepared_start_time.is_some() {
                table_writer.write_entry::<u64>(6);
            }
            if prepared_end_time.is_some() {
                table_writer.write_entry::<u64>(7);
            }
            if prepared_name.is_some() {
                table_writer.write_entry::<::planus::Offset<str>>(0);
            }
            if prepared_chain_index.is_some() {
                table_writer.write_entry::<i32>(1);
            }
            if prepared_instruction_id.is_some() {
                table_writer.write_entry::<i32>(2);
            }
            if prepared_delegate_debug_id_int.is_some() {
                table_writer.write_entry::<i32>(3);
            }
            if prepared_delegate_debug_id_str.is_some() {
                table_writer.write_entry::<::planus::Offset<str>>(4);
            }
            if prepared_delegate_debug_metadata.is_some() {
                table_writer.write_entry::<::planus::Offset<[u8]>>(5);
            }

            unsafe {
                table_writer.finish(builder, |object_writer| {
                    if let ::core::option::Option::Some(prepared_start_time) = prepared_start_time {
                        object_writer.write::<_, _, 8>(&prepared_start_time);
                    }
                    if let ::core::option::Option::Some(prepared_end_time) = prepared_end_time {
                        object_writer.write::<_, _, 8>(&prepared_end_time);
                    }
                    if let ::core::option::Option::Some(prepared_name) = prepared_name {
                        object_writer.write::<_, _, 4>(&prepared_name);
                    }
                    if let ::core::option::Option::Some(prepared_chain_index) = prepared_chain_index {
                        object_writer.write::<_, _, 4>(&prepared_chain_index);
                    }
                    if let ::core::option::Option::Some(prepared_instruction_id) = prepared_instruction_id {
                        object_writer.write::<_, _, 4>(&prepared_instruction_id);
                    }
                    if let ::core::option::Option::Some(prepared_delegate_debug_id_int) = prepared_delegate_debug_id_int
                    {
                        object_writer.write::<_, _, 4>(&prepared_delegate_debug_id_int);
                    }
                    if let ::core::option::Option::Some(prepared_delegate_debug_id_str) = prepared_delegate_debug_id_str
                    {
                        object_writer.write::<_, _, 4>(&prepared_delegate_debug_id_str);
                    }
                    if let ::core::option::Option::Some(prepared_delegate_debug_metadata) =
                        prepared_delegate_debug_metadata
                    {
                        object_writer.write::<_, _, 4>(&prepared_delegate_debug_metadata);
                    }
                });
            }
            builder.current_offset()
        }
    }

    impl ::planus::WriteAs<::planus::Offset<ProfileEvent>> for ProfileEvent {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<ProfileEvent> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl ::planus::WriteAsOptional<::planus::Offset<ProfileEvent>> for ProfileEvent {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<ProfileEvent>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl ::planus::WriteAsOffset<ProfileEvent> for ProfileEvent {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<ProfileEvent> {
            ProfileEvent::create(
                builder,
                &self.name,
                self.chain_index,
                self.instruction_id,
                self.delegate_debug_id_int,
                &self.delegate_debug_id_str,
                &self.delegate_debug_metadata,
                self.start_time,
                self.end_time,
            )
        }
    }

    /// Builder for serializing an instance of the [ProfileEvent] type.
    ///
    /// Can be created using the [ProfileEvent::builder] method.
    #[derive(Debug)]
    #[must_use]
    pub struct ProfileEventBuilder<State>(State);

    impl ProfileEventBuilder<()> {
        /// Setter for the [`name` field](ProfileEvent#structfield.name).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn name<T0>(self, value: T0) -> ProfileEventBuilder<(T0,)>
        where
            T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        {
            ProfileEventBuilder((value,))
        }

        /// Sets the [`name` field](ProfileEvent#structfield.name) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn name_as_null(self) -> ProfileEventBuilder<((),)> {
            self.name(())
        }
    }

    impl<T0> ProfileEventBuilder<(T0,)> {
        /// Setter for the [`chain_index` field](ProfileEvent#structfield.chain_index).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn chain_index<T1>(self, value: T1) -> ProfileEventBuilder<(T0, T1)>
        where
            T1: ::planus::WriteAsDefault<i32, i32>,
        {
            let (v0,) = self.0;
            ProfileEventBuilder((v0, value))
        }

        /// Sets the [`chain_index` field](ProfileEvent#structfield.chain_index) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn chain_index_as_default(self) -> ProfileEventBuilder<(T0, ::planus::DefaultValue)> {
            self.chain_index(::planus::DefaultValue)
        }
    }

    impl<T0, T1> ProfileEventBuilder<(T0, T1)> {
        /// Setter for the [`instruction_id` field](ProfileEvent#structfield.instruction_id).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn instruction_id<T2>(self, value: T2) -> ProfileEventBuilder<(T0, T1, T2)>
        where
            T2: ::planus::WriteAsDefault<i32, i32>,
        {
            let (v0, v1) = self.0;
            ProfileEventBuilder((v0, v1, value))
        }

        /// Sets the [`instruction_id` field](ProfileEvent#structfield.instruction_id) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn instruction_id_as_default(self) -> ProfileEventBuilder<(T0, T1, ::planus::DefaultValue)> {
            self.instruction_id(::planus::DefaultValue)
        }
    }

    impl<T0, T1, T2> ProfileEventBuilder<(T0, T1, T2)> {
        /// Setter for the [`delegate_debug_id_int` field](ProfileEvent#structfield.delegate_debug_id_int).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn delegate_debug_id_int<T3>(self, value: T3) -> ProfileEventBuilder<(T0, T1, T2, T3)>
        where
            T3: ::planus::WriteAsDefault<i32, i32>,
        {
            let (v0, v1, v2) = self.0;
            ProfileEventBuilder((v0, v1, v2, value))
        }

        /// Sets the [`delegate_debug_id_int` field](ProfileEvent#structfield.delegate_debug_id_int) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn delegate_debug_id_int_as_default(self) -> ProfileEventBuilder<(T0, T1, T2, ::planus::DefaultValue)> {
            self.delegate_debug_id_int(::planus::DefaultValue)
        }
    }

    impl<T0, T1, T2, T3> ProfileEventBuilder<(T0, T1, T2, T3)> {
        /// Setter for the [`delegate_debug_id_str` field](ProfileEvent#structfield.delegate_debug_id_str).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn delegate_debug_id_str<T4>(self, value: T4) -> ProfileEventBuilder<(T0, T1, T2, T3, T4)>
        where
            T4: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        {
            let (v0, v1, v2, v3) = self.0;
            ProfileEventBuilder((v0, v1, v2, v3, value))
        }

        /// Sets the [`delegate_debug_id_str` field](ProfileEvent#structfield.delegate_debug_id_str) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn delegate_debug_id_str_as_null(self) -> ProfileEventBuilder<(T0, T1, T2, T3, ())> {
            self.delegate_debug_id_str(())
        }
    }

    impl<T0, T1, T2, T3, T4> ProfileEventBuilder<(T0, T1, T2, T3, T4)> {
        /// Setter for the [`delegate_debug_metadata` field](ProfileEvent#structfield.delegate_debug_metadata).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn delegate_debug_metadata<T5>(self, value: T5) -> ProfileEventBuilder<(T0, T1, T2, T3, T4, T5)>
        where
            T5: ::planus::WriteAsOptional<::planus::Offset<[u8]>>,
        {
            let (v0, v1, v2, v3, v4) = self.0;
            ProfileEventBuilder((v0, v1, v2, v3, v4, value))
        }

        /// Sets the [`delegate_debug_metadata` field](ProfileEvent#structfield.delegate_debug_metadata) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn delegate_debug_metadata_as_null(self) -> ProfileEventBuilder<(T0, T1, T2, T3, T4, ())> {
            self.delegate_debug_metadata(())
        }
    }

    impl<T0, T1, T2, T3, T4, T5> ProfileEventBuilder<(T0, T1, T2, T3, T4, T5)> {
        /// Setter for the [`start_time` field](ProfileEvent#structfield.start_time).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn start_time<T6>(self, value: T6) -> ProfileEventBuilder<(T0, T1, T2, T3, T4, T5, T6)>
        where
            T6: ::planus::WriteAsDefault<u64, u64>,
        {
            let (v0, v1, v2, v3, v4, v5) = self.0;
            ProfileEventBuilder((v0, v1, v2, v3, v4, v5, value))
        }

        /// Sets the [`start_time` field](ProfileEvent#structfield.start_time) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn start_time_as_default(self) -> ProfileEventBuilder<(T0, T1, T2, T3, T4, T5, ::planus::DefaultValue)> {
            self.start_time(::planus::DefaultValue)
        }
    }

    impl<T0, T1, T2, T3, T4, T5, T6> ProfileEventBuilder<(T0, T1, T2, T3, T4, T5, T6)> {
        /// Setter for the [`end_time` field](ProfileEvent#structfield.end_time).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn end_time<T7>(self, value: T7) -> ProfileEventBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
        where
            T7: ::planus::WriteAsDefault<u64, u64>,
        {
            let (v0, v1, v2, v3, v4, v5, v6) = self.0;
            ProfileEventBuilder((v0, v1, v2, v3, v4, v5, v6, value))
        }

        /// Sets the [`end_time` field](ProfileEvent#structfield.end_time) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn end_time_as_default(self) -> ProfileEventBuilder<(T0, T1, T2, T3, T4, T5, T6, ::planus::DefaultValue)> {
            self.end_time(::planus::DefaultValue)
        }
    }

    impl<T0, T1, T2, T3, T4, T5, T6, T7> ProfileEventBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)> {
        /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [ProfileEvent].
        #[inline]
        pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<ProfileEvent>
        where
            Self: ::planus::WriteAsOffset<ProfileEvent>,
        {
            ::planus::WriteAsOffset::prepare(&self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T1: ::planus::WriteAsDefault<i32, i32>,
        T2: ::planus::WriteAsDefault<i32, i32>,
        T3: ::planus::WriteAsDefault<i32, i32>,
        T4: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T5: ::planus::WriteAsOptional<::planus::Offset<[u8]>>,
        T6: ::planus::WriteAsDefault<u64, u64>,
        T7: ::planus::WriteAsDefault<u64, u64>,
    > ::planus::WriteAs<::planus::Offset<ProfileEvent>> for ProfileEventBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
    {
        type Prepared = ::planus::Offset<ProfileEvent>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<ProfileEvent> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T1: ::planus::WriteAsDefault<i32, i32>,
        T2: ::planus::WriteAsDefault<i32, i32>,
        T3: ::planus::WriteAsDefault<i32, i32>,
        T4: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T5: ::planus::WriteAsOptional<::planus::Offset<[u8]>>,
        T6: ::planus::WriteAsDefault<u64, u64>,
        T7: ::planus::WriteAsDefault<u64, u64>,
    > ::planus::WriteAsOptional<::planus::Offset<ProfileEvent>>
        for ProfileEventBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
    {
        type Prepared = ::planus::Offset<ProfileEvent>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<ProfileEvent>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl<
        T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T1: ::planus::WriteAsDefault<i32, i32>,
        T2: ::planus::WriteAsDefault<i32, i32>,
        T3: ::planus::WriteAsDefault<i32, i32>,
        T4: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T5: ::planus::WriteAsOptional<::planus::Offset<[u8]>>,
        T6: ::planus::WriteAsDefault<u64, u64>,
        T7: ::planus::WriteAsDefault<u64, u64>,
    > ::planus::WriteAsOffset<ProfileEvent> for ProfileEventBuilder<(T0, T1, T2, T3, T4, T5, T6, T7)>
    {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<ProfileEvent> {
            let (v0, v1, v2, v3, v4, v5, v6, v7) = &self.0;
            ProfileEvent::create(builder, v0, v1, v2, v3, v4, v5, v6, v7)
        }
    }

    /// Reference to a deserialized [ProfileEvent].
    #[derive(Copy, Clone)]
    pub struct ProfileEventRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

    impl<'a> ProfileEventRef<'a> {
        /// Getter for the [`name` field](ProfileEvent#structfield.name).
        #[inline]
        pub fn name(&self) -> ::planus::Result<::core::option::Option<&'a ::core::primitive::str>> {
            self.0.access(0, "ProfileEvent", "name")
        }

        /// Getter for the [`chain_index` field](ProfileEvent#structfield.chain_index).
        #[inline]
        pub fn chain_index(&self) -> ::planus::Result<i32> {
            ::core::result::Result::Ok(self.0.access(1, "ProfileEvent", "chain_index")?.unwrap_or(0))
        }

        /// Getter for the [`instruction_id` field](ProfileEvent#structfield.instruction_id).
        #[inline]
        pub fn instruction_id(&self) -> ::planus::Result<i32> {
            ::core::result::Result::Ok(self.0.access(2, "ProfileEvent", "instruction_id")?.unwrap_or(-1))
        }

        /// Getter for the [`delegate_debug_id_int` field](ProfileEvent#structfield.delegate_debug_id_int).
        #[inline]
        pub fn delegate_debug_id_int(&self) -> ::planus::Result<i32> {
            ::core::result::Result::Ok(self.0.access(3, "ProfileEvent", "delegate_debug_id_int")?.unwrap_or(-1))
        }

        /// Getter for the [`delegate_debug_id_str` field](ProfileEvent#structfield.delegate_debug_id_str).
        #[inline]
        pub fn delegate_debug_id_str(&self) -> ::planus::Result<::core::option::Option<&'a ::core::primitive::str>> {
            self.0.access(4, "ProfileEvent", "delegate_debug_id_str")
        }

        /// Getter for the [`delegate_debug_metadata` field](ProfileEvent#structfield.delegate_debug_metadata).
        #[inline]
        pub fn delegate_debug_metadata(&self) -> ::planus::Result<::core::option::Option<&'a [u8]>> {
            self.0.access(5, "ProfileEvent", "delegate_debug_metadata")
        }

        /// Getter for the [`start_time` field](ProfileEvent#structfield.start_time).
        #[inline]
        pub fn start_time(&self) -> ::planus::Result<u64> {
            ::core::result::Result::Ok(self.0.access(6, "ProfileEvent", "start_time")?.unwrap_or(0))
        }

        /// Getter for the [`end_time` field](ProfileEvent#structfield.end_time).
        #[inline]
        pub fn end_time(&self) -> ::planus::Result<u64> {
            ::core::result::Result::Ok(self.0.access(7, "ProfileEvent", "end_time")?.unwrap_or(0))
        }
    }

    impl<'a> ::core::fmt::Debug for ProfileEventRef<'a> {
        fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
            let mut f = f.debug_struct("ProfileEventRef");
            if let ::core::option::Option::Some(field_name) = self.name().transpose() {
                f.field("name", &field_name);
            }
            f.field("chain_index", &self.chain_index());
            f.field("instruction_id", &self.instruction_id());
            f.field("delegate_debug_id_int", &self.delegate_debug_id_int());
            if let ::core::option::Option::Some(field_delegate_debug_id_str) = self.delegate_debug_id_str().transpose()
            {
                f.field("delegate_debug_id_str", &field_delegate_debug_id_str);
            }
            if let ::core::option::Option::Some(field_delegate_debug_metadata) =
                self.delegate_debug_metadata().transpose()
            {
                f.field("delegate_debug_metadata", &field_delegate_debug_metadata);
            }
            f.field("start_time", &self.start_time());
            f.field("end_time", &self.end_time());
            f.finish()
        }
    }

    impl<'a> ::core::convert::TryFrom<ProfileEventRef<'a>> for ProfileEvent {
        type Error = ::planus::Error;

        #[allow(unreachable_code)]
        fn try_from(value: ProfileEventRef<'a>) -> ::planus::Result<Self> {
            ::core::result::Result::Ok(Self {
                name: value.name()?.map(::core::convert::Into::into),
                chain_index: ::core::convert::TryInto::try_into(value.chain_index()?)?,
                instruction_id: ::core::convert::TryInto::try_into(value.instruction_id()?)?,
                delegate_debug_id_int: ::core::convert::TryInto::try_into(value.delegate_debug_id_int()?)?,
                delegate_debug_id_str: value.delegate_debug_id_str()?.map(::core::convert::Into::into),
                delegate_debug_metadata: value.delegate_debug_metadata()?.map(|v| v.to_vec()),
                start_time: ::core::convert::TryInto::try_into(value.start_time()?)?,
                end_time: ::core::convert::TryInto::try_into(value.end_time()?)?,
            })
        }
    }

    impl<'a> ::planus::TableRead<'a> for ProfileEventRef<'a> {
        #[inline]
        fn from_buffer(
            buffer: ::planus::SliceWithStartOffset<'a>,
            offset: usize,
        ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
            ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
        }
    }

    impl<'a> ::planus::VectorReadInner<'a> for ProfileEventRef<'a> {
        type Error = ::planus::Error;
        const STRIDE: usize = 4;

        unsafe fn from_buffer(buffer: ::planus::SliceWithStartOffset<'a>, offset: usize) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                error_kind.with_error_location("[ProfileEventRef]", "get", buffer.offset_from_start)
            })
        }
    }

    /// # Safety
    /// The planus compiler generates implementations that initialize
    /// the bytes in `write_values`.
    unsafe impl ::planus::VectorWrite<::planus::Offset<ProfileEvent>> for ProfileEvent {
        type Value = ::planus::Offset<ProfileEvent>;
        const STRIDE: usize = 4;
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
            ::planus::WriteAs::prepare(self, builder)
        }

        #[inline]
        unsafe fn write_values(
            values: &[::planus::Offset<ProfileEvent>],
            bytes: *mut ::core::mem::MaybeUninit<u8>,
            buffer_position: u32,
        ) {
            let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
            for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                ::planus::WriteAsPrimitive::write(
                    v,
                    ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                    buffer_position - (Self::STRIDE * i) as u32,
                );
            }
        }
    }

    impl<'a> ::planus::ReadAsRoot<'a> for ProfileEventRef<'a> {
        fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 }, 0)
                .map_err(|error_kind| error_kind.with_error_location("[ProfileEventRef]", "read_as_root", 0))
        }
    }

    /// The table `Event`
    ///
    /// Generated from these locations:
    /// * Table `Event` in the file `schema/etdump.fbs:18`
    #[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash)]
    pub struct Event {
        /// The field `profile_event` in the table `Event`
        pub profile_event: ::core::option::Option<::planus::alloc::boxed::Box<self::ProfileEvent>>,
    }

    #[allow(clippy::derivable_impls)]
    impl ::core::default::Default for Event {
        fn default() -> Self {
            Self { profile_event: ::core::default::Default::default() }
        }
    }

    impl Event {
        /// Creates a [EventBuilder] for serializing an instance of this table.
        #[inline]
        pub fn builder() -> EventBuilder<()> {
            EventBuilder(())
        }

        #[allow(clippy::too_many_arguments)]
        pub fn create(
            builder: &mut ::planus::Builder,
            field_profile_event: impl ::planus::WriteAsOptional<::planus::Offset<self::ProfileEvent>>,
        ) -> ::planus::Offset<Self> {
            let prepared_profile_event = field_profile_event.prepare(builder);

            let mut table_writer: ::planus::table_writer::TableWriter<6> = ::core::default::Default::default();
            if prepared_profile_event.is_some() {
                table_writer.write_entry::<::planus::Offset<self::ProfileEvent>>(0);
            }

            unsafe {
                table_writer.finish(builder, |object_writer| {
                    if let ::core::option::Option::Some(prepared_profile_event) = prepared_profile_event {
                        object_writer.write::<_, _, 4>(&prepared_profile_event);
                    }
                });
            }
            builder.current_offset()
        }
    }

    impl ::planus::WriteAs<::planus::Offset<Event>> for Event {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Event> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl ::planus::WriteAsOptional<::planus::Offset<Event>> for Event {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Event>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl ::planus::WriteAsOffset<Event> for Event {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Event> {
            Event::create(builder, &self.profile_event)
        }
    }

    /// Builder for serializing an instance of the [Event] type.
    ///
    /// Can be created using the [Event::builder] method.
    #[derive(Debug)]
    #[must_use]
    pub struct EventBuilder<State>(State);

    impl EventBuilder<()> {
        /// Setter for the [`profile_event` field](Event#structfield.profile_event).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn profile_event<T0>(self, value: T0) -> EventBuilder<(T0,)>
        where
            T0: ::planus::WriteAsOptional<::planus::Offset<self::ProfileEvent>>,
        {
            EventBuilder((value,))
        }

        /// Sets the [`profile_event` field](Event#structfield.profile_event) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn profile_event_as_null(self) -> EventBuilder<((),)> {
            self.profile_event(())
        }
    }

    impl<T0> EventBuilder<(T0,)> {
        /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [Event].
        #[inline]
        pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<Event>
        where
            Self: ::planus::WriteAsOffset<Event>,
        {
            ::planus::WriteAsOffset::prepare(&self, builder)
        }
    }

    impl<T0: ::planus::WriteAsOptional<::planus::Offset<self::ProfileEvent>>> ::planus::WriteAs<::planus::Offset<Event>>
        for EventBuilder<(T0,)>
    {
        type Prepared = ::planus::Offset<Event>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Event> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl<T0: ::planus::WriteAsOptional<::planus::Offset<self::ProfileEvent>>>
        ::planus::WriteAsOptional<::planus::Offset<Event>> for EventBuilder<(T0,)>
    {
        type Prepared = ::planus::Offset<Event>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<Event>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl<T0: ::planus::WriteAsOptional<::planus::Offset<self::ProfileEvent>>> ::planus::WriteAsOffset<Event>
        for EventBuilder<(T0,)>
    {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<Event> {
            let (v0,) = &self.0;
            Event::create(builder, v0)
        }
    }

    /// Reference to a deserialized [Event].
    #[derive(Copy, Clone)]
    pub struct EventRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

    impl<'a> EventRef<'a> {
        /// Getter for the [`profile_event` field](Event#structfield.profile_event).
        #[inline]
        pub fn profile_event(&self) -> ::planus::Result<::core::option::Option<self::ProfileEventRef<'a>>> {
            self.0.access(0, "Event", "profile_event")
        }
    }

    impl<'a> ::core::fmt::Debug for EventRef<'a> {
        fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
            let mut f = f.debug_struct("EventRef");
            if let ::core::option::Option::Some(field_profile_event) = self.profile_event().transpose() {
                f.field("profile_event", &field_profile_event);
            }
            f.finish()
        }
    }

    impl<'a> ::core::convert::TryFrom<EventRef<'a>> for Event {
        type Error = ::planus::Error;

        #[allow(unreachable_code)]
        fn try_from(value: EventRef<'a>) -> ::planus::Result<Self> {
            ::core::result::Result::Ok(Self {
                profile_event: if let ::core::option::Option::Some(profile_event) = value.profile_event()? {
                    ::core::option::Option::Some(::planus::alloc::boxed::Box::new(::core::convert::TryInto::try_into(
                        profile_event,
                    )?))
                } else {
                    ::core::option::Option::None
                },
            })
        }
    }

    impl<'a> ::planus::TableRead<'a> for EventRef<'a> {
        #[inline]
        fn from_buffer(
            buffer: ::planus::SliceWithStartOffset<'a>,
            offset: usize,
        ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
            ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
        }
    }

    impl<'a> ::planus::VectorReadInner<'a> for EventRef<'a> {
        type Error = ::planus::Error;
        const STRIDE: usize = 4;

        unsafe fn from_buffer(buffer: ::planus::SliceWithStartOffset<'a>, offset: usize) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(buffer, offset)
                .map_err(|error_kind| error_kind.with_error_location("[EventRef]", "get", buffer.offset_from_start))
        }
    }

    /// # Safety
    /// The planus compiler generates implementations that initialize
    /// the bytes in `write_values`.
    unsafe impl ::planus::VectorWrite<::planus::Offset<Event>> for Event {
        type Value = ::planus::Offset<Event>;
        const STRIDE: usize = 4;
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
            ::planus::WriteAs::prepare(self, builder)
        }

        #[inline]
        unsafe fn write_values(
            values: &[::planus::Offset<Event>],
            bytes: *mut ::core::mem::MaybeUninit<u8>,
            buffer_position: u32,
        ) {
            let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
            for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                ::planus::WriteAsPrimitive::write(
                    v,
                    ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                    buffer_position - (Self::STRIDE * i) as u32,
                );
            }
        }
    }

    impl<'a> ::planus::ReadAsRoot<'a> for EventRef<'a> {
        fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 }, 0)
                .map_err(|error_kind| error_kind.with_error_location("[EventRef]", "read_as_root", 0))
        }
    }

    /// The table `RunData`
    ///
    /// Generated from these locations:
    /// * Table `RunData` in the file `schema/etdump.fbs:20`
    #[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash)]
    pub struct RunData {
        /// The field `name` in the table `RunData`
        pub name: ::core::option::Option<::planus::alloc::string::String>,
        /// The field `bundled_input_index` in the table `RunData`
        pub bundled_input_index: i32,
        /// The field `allocators` in the table `RunData`
        pub allocators: ::core::option::Option<::planus::alloc::vec::Vec<u32>>,
        /// The field `events` in the table `RunData`
        pub events: ::core::option::Option<::planus::alloc::vec::Vec<self::Event>>,
    }

    #[allow(clippy::derivable_impls)]
    impl ::core::default::Default for RunData {
        fn default() -> Self {
            Self {
                name: ::core::default::Default::default(),
                bundled_input_index: -1,
                allocators: ::core::default::Default::default(),
                events: ::core::default::Default::default(),
            }
        }
    }

    impl RunData {
        /// Creates a [RunDataBuilder] for serializing an instance of this table.
        #[inline]
        pub fn builder() -> RunDataBuilder<()> {
            RunDataBuilder(())
        }

        #[allow(clippy::too_many_arguments)]
        pub fn create(
            builder: &mut ::planus::Builder,
            field_name: impl ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
            field_bundled_input_index: impl ::planus::WriteAsDefault<i32, i32>,
            field_allocators: impl ::planus::WriteAsOptional<::planus::Offset<[u32]>>,
            field_events: impl ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Event>]>>,
        ) -> ::planus::Offset<Self> {
            let prepared_name = field_name.prepare(builder);
            let prepared_bundled_input_index = field_bundled_input_index.prepare(builder, &-1);
            let prepared_allocators = field_allocators.prepare(builder);
            let prepared_events = field_events.prepare(builder);

            let mut table_writer: ::planus::table_writer::TableWriter<12> = ::core::default::Default::default();
            if prepared_name.is_some() {
                table_writer.write_entry::<::planus::Offset<str>>(0);
            }
            if prepared_bundled_input_index.is_some() {
                table_writer.write_entry::<i32>(1);
            }
            if prepared_allocators.is_some() {
                table_writer.write_entry::<::planus::Offset<[u32]>>(2);
            }
            if prepared_events.is_some() {
                table_writer.write_entry::<::planus::Offset<[::planus::Offset<self::Event>]>>(3);
            }

            unsafe {
                table_writer.finish(builder, |object_writer| {
                    if let ::core::option::Option::Some(prepared_name) = prepared_name {
                        object_writer.write::<_, _, 4>(&prepared_name);
                    }
                    if let ::core::option::Option::Some(prepared_bundled_input_index) = prepared_bundled_input_index {
                        object_writer.write::<_, _, 4>(&prepared_bundled_input_index);
                    }
                    if let ::core::option::Option::Some(prepared_allocators) = prepared_allocators {
                        object_writer.write::<_, _, 4>(&prepared_allocators);
                    }
                    if let ::core::option::Option::Some(prepared_events) = prepared_events {
                        object_writer.write::<_, _, 4>(&prepared_events);
                    }
                });
            }
            builder.current_offset()
        }
    }

    impl ::planus::WriteAs<::planus::Offset<RunData>> for RunData {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<RunData> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl ::planus::WriteAsOptional<::planus::Offset<RunData>> for RunData {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<RunData>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl ::planus::WriteAsOffset<RunData> for RunData {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<RunData> {
            RunData::create(builder, &self.name, self.bundled_input_index, &self.allocators, &self.events)
        }
    }

    /// Builder for serializing an instance of the [RunData] type.
    ///
    /// Can be created using the [RunData::builder] method.
    #[derive(Debug)]
    #[must_use]
    pub struct RunDataBuilder<State>(State);

    impl RunDataBuilder<()> {
        /// Setter for the [`name` field](RunData#structfield.name).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn name<T0>(self, value: T0) -> RunDataBuilder<(T0,)>
        where
            T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        {
            RunDataBuilder((value,))
        }

        /// Sets the [`name` field](RunData#structfield.name) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn name_as_null(self) -> RunDataBuilder<((),)> {
            self.name(())
        }
    }

    impl<T0> RunDataBuilder<(T0,)> {
        /// Setter for the [`bundled_input_index` field](RunData#structfield.bundled_input_index).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn bundled_input_index<T1>(self, value: T1) -> RunDataBuilder<(T0, T1)>
        where
            T1: ::planus::WriteAsDefault<i32, i32>,
        {
            let (v0,) = self.0;
            RunDataBuilder((v0, value))
        }

        /// Sets the [`bundled_input_index` field](RunData#structfield.bundled_input_index) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn bundled_input_index_as_default(self) -> RunDataBuilder<(T0, ::planus::DefaultValue)> {
            self.bundled_input_index(::planus::DefaultValue)
        }
    }

    impl<T0, T1> RunDataBuilder<(T0, T1)> {
        /// Setter for the [`allocators` field](RunData#structfield.allocators).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn allocators<T2>(self, value: T2) -> RunDataBuilder<(T0, T1, T2)>
        where
            T2: ::planus::WriteAsOptional<::planus::Offset<[u32]>>,
        {
            let (v0, v1) = self.0;
            RunDataBuilder((v0, v1, value))
        }

        /// Sets the [`allocators` field](RunData#structfield.allocators) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn allocators_as_null(self) -> RunDataBuilder<(T0, T1, ())> {
            self.allocators(())
        }
    }

    impl<T0, T1, T2> RunDataBuilder<(T0, T1, T2)> {
        /// Setter for the [`events` field](RunData#structfield.events).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn events<T3>(self, value: T3) -> RunDataBuilder<(T0, T1, T2, T3)>
        where
            T3: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Event>]>>,
        {
            let (v0, v1, v2) = self.0;
            RunDataBuilder((v0, v1, v2, value))
        }

        /// Sets the [`events` field](RunData#structfield.events) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn events_as_null(self) -> RunDataBuilder<(T0, T1, T2, ())> {
            self.events(())
        }
    }

    impl<T0, T1, T2, T3> RunDataBuilder<(T0, T1, T2, T3)> {
        /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [RunData].
        #[inline]
        pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<RunData>
        where
            Self: ::planus::WriteAsOffset<RunData>,
        {
            ::planus::WriteAsOffset::prepare(&self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T1: ::planus::WriteAsDefault<i32, i32>,
        T2: ::planus::WriteAsOptional<::planus::Offset<[u32]>>,
        T3: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Event>]>>,
    > ::planus::WriteAs<::planus::Offset<RunData>> for RunDataBuilder<(T0, T1, T2, T3)>
    {
        type Prepared = ::planus::Offset<RunData>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<RunData> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T1: ::planus::WriteAsDefault<i32, i32>,
        T2: ::planus::WriteAsOptional<::planus::Offset<[u32]>>,
        T3: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Event>]>>,
    > ::planus::WriteAsOptional<::planus::Offset<RunData>> for RunDataBuilder<(T0, T1, T2, T3)>
    {
        type Prepared = ::planus::Offset<RunData>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<RunData>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl<
        T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T1: ::planus::WriteAsDefault<i32, i32>,
        T2: ::planus::WriteAsOptional<::planus::Offset<[u32]>>,
        T3: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::Event>]>>,
    > ::planus::WriteAsOffset<RunData> for RunDataBuilder<(T0, T1, T2, T3)>
    {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<RunData> {
            let (v0, v1, v2, v3) = &self.0;
            RunData::create(builder, v0, v1, v2, v3)
        }
    }

    /// Reference to a deserialized [RunData].
    #[derive(Copy, Clone)]
    pub struct RunDataRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

    impl<'a> RunDataRef<'a> {
        /// Getter for the [`name` field](RunData#structfield.name).
        #[inline]
        pub fn name(&self) -> ::planus::Result<::core::option::Option<&'a ::core::primitive::str>> {
            self.0.access(0, "RunData", "name")
        }

        /// Getter for the [`bundled_input_index` field](RunData#structfield.bundled_input_index).
        #[inline]
        pub fn bundled_input_index(&self) -> ::planus::Result<i32> {
            ::core::result::Result::Ok(self.0.access(1, "RunData", "bundled_input_index")?.unwrap_or(-1))
        }

        /// Getter for the [`allocators` field](RunData#structfield.allocators).
        #[inline]
        pub fn allocators(&self) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, u32>>> {
            self.0.access(2, "RunData", "allocators")
        }

        /// Getter for the [`events` field](RunData#structfield.events).
        #[inline]
        pub fn events(
            &self,
        ) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, ::planus::Result<self::EventRef<'a>>>>>
        {
            self.0.access(3, "RunData", "events")
        }
    }

    impl<'a> ::core::fmt::Debug for RunDataRef<'a> {
        fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
            let mut f = f.debug_struct("RunDataRef");
            if let ::core::option::Option::Some(field_name) = self.name().transpose() {
                f.field("name", &field_name);
            }
            f.field("bundled_input_index", &self.bundled_input_index());
            if let ::core::option::Option::Some(field_allocators) = self.allocators().transpose() {
                f.field("allocators", &field_allocators);
            }
            if let ::core::option::Option::Some(field_events) = self.events().transpose() {
                f.field("events", &field_events);
            }
            f.finish()
        }
    }

    impl<'a> ::core::convert::TryFrom<RunDataRef<'a>> for RunData {
        type Error = ::planus::Error;

        #[allow(unreachable_code)]
        fn try_from(value: RunDataRef<'a>) -> ::planus::Result<Self> {
            ::core::result::Result::Ok(Self {
                name: value.name()?.map(::core::convert::Into::into),
                bundled_input_index: ::core::convert::TryInto::try_into(value.bundled_input_index()?)?,
                allocators: if let ::core::option::Option::Some(allocators) = value.allocators()? {
                    ::core::option::Option::Some(allocators.to_vec()?)
                } else {
                    ::core::option::Option::None
                },
                events: if let ::core::option::Option::Some(events) = value.events()? {
                    ::core::option::Option::Some(events.to_vec_result()?)
                } else {
                    ::core::option::Option::None
                },
            })
        }
    }

    impl<'a> ::planus::TableRead<'a> for RunDataRef<'a> {
        #[inline]
        fn from_buffer(
            buffer: ::planus::SliceWithStartOffset<'a>,
            offset: usize,
        ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
            ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
        }
    }

    impl<'a> ::planus::VectorReadInner<'a> for RunDataRef<'a> {
        type Error = ::planus::Error;
        const STRIDE: usize = 4;

        unsafe fn from_buffer(buffer: ::planus::SliceWithStartOffset<'a>, offset: usize) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(buffer, offset)
                .map_err(|error_kind| error_kind.with_error_location("[RunDataRef]", "get", buffer.offset_from_start))
        }
    }

    /// # Safety
    /// The planus compiler generates implementations that initialize
    /// the bytes in `write_values`.
    unsafe impl ::planus::VectorWrite<::planus::Offset<RunData>> for RunData {
        type Value = ::planus::Offset<RunData>;
        const STRIDE: usize = 4;
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
            ::planus::WriteAs::prepare(self, builder)
        }

        #[inline]
        unsafe fn write_values(
            values: &[::planus::Offset<RunData>],
            bytes: *mut ::core::mem::MaybeUninit<u8>,
            buffer_position: u32,
        ) {
            let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
            for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                ::planus::WriteAsPrimitive::write(
                    v,
                    ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                    buffer_position - (Self::STRIDE * i) as u32,
                );
            }
        }
    }

    impl<'a> ::planus::ReadAsRoot<'a> for RunDataRef<'a> {
        fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 }, 0)
                .map_err(|error_kind| error_kind.with_error_location("[RunDataRef]", "read_as_root", 0))
        }
    }

    /// The table `ETDump`
    ///
    /// Generated from these locations:
    /// * Table `ETDump` in the file `schema/etdump.fbs:28`
    #[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash)]
    pub struct EtDump {
        /// The field `version` in the table `ETDump`
        pub version: u32,
        /// The field `run_data` in the table `ETDump`
        pub run_data: ::core::option::Option<::planus::alloc::vec::Vec<self::RunData>>,
    }

    #[allow(clippy::derivable_impls)]
    impl ::core::default::Default for EtDump {
        fn default() -> Self {
            Self { version: 0, run_data: ::core::default::Default::default() }
        }
    }

    impl EtDump {
        /// Creates a [EtDumpBuilder] for serializing an instance of this table.
        #[inline]
        pub fn builder() -> EtDumpBuilder<()> {
            EtDumpBuilder(())
        }

        #[allow(clippy::too_many_arguments)]
        pub fn create(
            builder: &mut ::planus::Builder,
            field_version: impl ::planus::WriteAsDefault<u32, u32>,
            field_run_data: impl ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::RunData>]>>,
        ) -> ::planus::Offset<Self> {
            let prepared_version = field_version.prepare(builder, &0);
            let prepared_run_data = field_run_data.prepare(builder);

            let mut table_writer: ::planus::table_writer::TableWriter<8> = ::core::default::Default::default();
            if prepared_version.is_some() {
                table_writer.write_entry::<u32>(0);
            }
            if prepared_run_data.is_some() {
                table_writer.write_entry::<::planus::Offset<[::planus::Offset<self::RunData>]>>(1);
            }

            unsafe {
                table_writer.finish(builder, |object_writer| {
                    if let ::core::option::Option::Some(prepared_version) = prepared_version {
                        object_writer.write::<_, _, 4>(&prepared_version);
                    }
                    if let ::core::option::Option::Some(prepared_run_data) = prepared_run_data {
                        object_writer.write::<_, _, 4>(&prepared_run_data);
                    }
                });
            }
            builder.current_offset()
        }
    }

    impl ::planus::WriteAs<::planus::Offset<EtDump>> for EtDump {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<EtDump> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl ::planus::WriteAsOptional<::planus::Offset<EtDump>> for EtDump {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<EtDump>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl ::planus::WriteAsOffset<EtDump> for EtDump {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<EtDump> {
            EtDump::create(builder, self.version, &self.run_data)
        }
    }

    /// Builder for serializing an instance of the [EtDump] type.
    ///
    /// Can be created using the [EtDump::builder] method.
    #[derive(Debug)]
    #[must_use]
    pub struct EtDumpBuilder<State>(State);

    impl EtDumpBuilder<()> {
        /// Setter for the [`version` field](EtDump#structfield.version).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn version<T0>(self, value: T0) -> EtDumpBuilder<(T0,)>
        where
            T0: ::planus::WriteAsDefault<u32, u32>,
        {
            EtDumpBuilder((value,))
        }

        /// Sets the [`version` field](EtDump#structfield.version) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn version_as_default(self) -> EtDumpBuilder<(::planus::DefaultValue,)> {
            self.version(::planus::DefaultValue)
        }
    }

    impl<T0> EtDumpBuilder<(T0,)> {
        /// Setter for the [`run_data` field](EtDump#structfield.run_data).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn run_data<T1>(self, value: T1) -> EtDumpBuilder<(T0, T1)>
        where
            T1: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::RunData>]>>,
        {
            let (v0,) = self.0;
            EtDumpBuilder((v0, value))
        }

        /// Sets the [`run_data` field](EtDump#structfield.run_data) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn run_data_as_null(self) -> EtDumpBuilder<(T0, ())> {
            self.run_data(())
        }
    }

    impl<T0, T1> EtDumpBuilder<(T0, T1)> {
        /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [EtDump].
        #[inline]
        pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<EtDump>
        where
            Self: ::planus::WriteAsOffset<EtDump>,
        {
            ::planus::WriteAsOffset::prepare(&self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsDefault<u32, u32>,
        T1: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::RunData>]>>,
    > ::planus::WriteAs<::planus::Offset<EtDump>> for EtDumpBuilder<(T0, T1)>
    {
        type Prepared = ::planus::Offset<EtDump>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<EtDump> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsDefault<u32, u32>,
        T1: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::RunData>]>>,
    > ::planus::WriteAsOptional<::planus::Offset<EtDump>> for EtDumpBuilder<(T0, T1)>
    {
        type Prepared = ::planus::Offset<EtDump>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<EtDump>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl<
        T0: ::planus::WriteAsDefault<u32, u32>,
        T1: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::RunData>]>>,
    > ::planus::WriteAsOffset<EtDump> for EtDumpBuilder<(T0, T1)>
    {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<EtDump> {
            let (v0, v1) = &self.0;
            EtDump::create(builder, v0, v1)
        }
    }

    /// Reference to a deserialized [EtDump].
    #[derive(Copy, Clone)]
    pub struct EtDumpRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

    impl<'a> EtDumpRef<'a> {
        /// Getter for the [`version` field](EtDump#structfield.version).
        #[inline]
        pub fn version(&self) -> ::planus::Result<u32> {
            ::core::result::Result::Ok(self.0.access(0, "EtDump", "version")?.unwrap_or(0))
        }

        /// Getter for the [`run_data` field](EtDump#structfield.run_data).
        #[inline]
        pub fn run_data(
            &self,
        ) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, ::planus::Result<self::RunDataRef<'a>>>>>
        {
            self.0.access(1, "EtDump", "run_data")
        }
    }

    impl<'a> ::core::fmt::Debug for EtDumpRef<'a> {
        fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
            let mut f = f.debug_struct("EtDumpRef");
            f.field("version", &self.version());
            if let ::core::option::Option::Some(field_run_data) = self.run_data().transpose() {
                f.field("run_data", &field_run_data);
            }
            f.finish()
        }
    }

    impl<'a> ::core::convert::TryFrom<EtDumpRef<'a>> for EtDump {
        type Error = ::planus::Error;

        #[allow(unreachable_code)]
        fn try_from(value: EtDumpRef<'a>) -> ::planus::Result<Self> {
            ::core::result::Result::Ok(Self {
                version: ::core::convert::TryInto::try_into(value.version()?)?,
                run_data: if let ::core::option::Option::Some(run_data) = value.run_data()? {
                    ::core::option::Option::Some(run_data.to_vec_result()?)
                } else {
                    ::core::option::Option::None
                },
            })
        }
    }

    impl<'a> ::planus::TableRead<'a> for EtDumpRef<'a> {
        #[inline]
        fn from_buffer(
            buffer: ::planus::SliceWithStartOffset<'a>,
            offset: usize,
        ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
            ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
        }
    }

    impl<'a> ::planus::VectorReadInner<'a> for EtDumpRef<'a> {
        type Error = ::planus::Error;
        const STRIDE: usize = 4;

        unsafe fn from_buffer(buffer: ::planus::SliceWithStartOffset<'a>, offset: usize) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(buffer, offset)
                .map_err(|error_kind| error_kind.with_error_location("[EtDumpRef]", "get", buffer.offset_from_start))
        }
    }

    /// # Safety
    /// The planus compiler generates implementations that initialize
    /// the bytes in `write_values`.
    unsafe impl ::planus::VectorWrite<::planus::Offset<EtDump>> for EtDump {
        type Value = ::planus::Offset<EtDump>;
        const STRIDE: usize = 4;
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
            ::planus::WriteAs::prepare(self, builder)
        }

        #[inline]
        unsafe fn write_values(
            values: &[::planus::Offset<EtDump>],
            bytes: *mut ::core::mem::MaybeUninit<u8>,
            buffer_position: u32,
        ) {
            let bytes = bytes as *mut [::core::mem::MaybeUninit<u8>; 4];
            for (i, v) in ::core::iter::Iterator::enumerate(values.iter()) {
                ::planus::WriteAsPrimitive::write(
                    v,
                    ::planus::Cursor::new(unsafe { &mut *bytes.add(i) }),
                    buffer_position - (Self::STRIDE * i) as u32,
                );
            }
        }
    }

    impl<'a> ::planus::ReadAsRoot<'a> for EtDumpRef<'a> {
        fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 }, 0)
                .map_err(|error_kind| error_kind.with_error_location("[EtDumpRef]", "read_as_root", 0))
        }
    }
}
