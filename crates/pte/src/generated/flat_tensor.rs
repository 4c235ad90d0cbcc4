pub use root::*;

const _: () = ::planus::check_version_compatibility("planus-1.3.0");

/// The root namespace
///
/// Generated from these locations:
/// * File `schema/flat_tensor.fbs`
#[no_implicit_prelude]
#[allow(clippy::needless_lifetimes)]
mod root {
    /// The table `DataSegment`
    ///
    /// Generated from these locations:
    /// * Table `DataSegment` in the file `schema/flat_tensor.fbs:4`
    #[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash)]
    pub struct DataSegment {
        /// The field `offset` in the table `DataSegment`
        pub offset: u64,
        /// The field `size` in the table `DataSegment`
        pub size: u64,
    }

    #[allow(clippy::derivable_impls)]
    impl ::core::default::Default for DataSegment {
        fn default() -> Self {
            Self { offset: 0, size: 0 }
        }
    }

    impl DataSegment {
        /// Creates a [DataSegmentBuilder] for serializing an instance of this table.
        #[inline]
        pub fn builder() -> DataSegmentBuilder<()> {
            DataSegmentBuilder(())
        }

        #[allow(clippy::too_many_arguments)]
        pub fn create(
            builder: &mut ::planus::Builder,
            field_offset: impl ::planus::WriteAsDefault<u64, u64>,
            field_size: impl ::planus::WriteAsDefault<u64, u64>,
        ) -> ::planus::Offset<Self> {
            let prepared_offset = field_offset.prepare(builder, &0);
            let prepared_size = field_size.prepare(builder, &0);

            let mut table_writer: ::planus::table_writer::TableWriter<8> = ::core::default::Default::default();
            if prepared_offset.is_some() {
                table_writer.write_entry::<u64>(0);
            }
            if prepared_size.is_some() {
                table_writer.write_entry::<u64>(1);
            }

            unsafe {
                table_writer.finish(builder, |object_writer| {
                    if let ::core::option::Option::Some(prepared_offset) = prepared_offset {
                        object_writer.write::<_, _, 8>(&prepared_offset);
                    }
                    if let ::core::option::Option::Some(prepared_size) = prepared_size {
                        object_writer.write::<_, _, 8>(&prepared_size);
                    }
                });
            }
            builder.current_offset()
        }
    }

    impl ::planus::WriteAs<::planus::Offset<DataSegment>> for DataSegment {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<DataSegment> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl ::planus::WriteAsOptional<::planus::Offset<DataSegment>> for DataSegment {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<DataSegment>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl ::planus::WriteAsOffset<DataSegment> for DataSegment {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<DataSegment> {
            DataSegment::create(builder, self.offset, self.size)
        }
    }

    /// Builder for serializing an instance of the [DataSegment] type.
    ///
    /// Can be created using the [DataSegment::builder] method.
    #[derive(Debug)]
    #[must_use]
    pub struct DataSegmentBuilder<State>(State);

    impl DataSegmentBuilder<()> {
        /// Setter for the [`offset` field](DataSegment#structfield.offset).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn offset<T0>(self, value: T0) -> DataSegmentBuilder<(T0,)>
        where
            T0: ::planus::WriteAsDefault<u64, u64>,
        {
            DataSegmentBuilder((value,))
        }

        /// Sets the [`offset` field](DataSegment#structfield.offset) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn offset_as_default(self) -> DataSegmentBuilder<(::planus::DefaultValue,)> {
            self.offset(::planus::DefaultValue)
        }
    }

    impl<T0> DataSegmentBuilder<(T0,)> {
        /// Setter for the [`size` field](DataSegment#structfield.size).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn size<T1>(self, value: T1) -> DataSegmentBuilder<(T0, T1)>
        where
            T1: ::planus::WriteAsDefault<u64, u64>,
        {
            let (v0,) = self.0;
            DataSegmentBuilder((v0, value))
        }

        /// Sets the [`size` field](DataSegment#structfield.size) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn size_as_default(self) -> DataSegmentBuilder<(T0, ::planus::DefaultValue)> {
            self.size(::planus::DefaultValue)
        }
    }

    impl<T0, T1> DataSegmentBuilder<(T0, T1)> {
        /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [DataSegment].
        #[inline]
        pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<DataSegment>
        where
            Self: ::planus::WriteAsOffset<DataSegment>,
        {
            ::planus::WriteAsOffset::prepare(&self, builder)
        }
    }

    impl<T0: ::planus::WriteAsDefault<u64, u64>, T1: ::planus::WriteAsDefault<u64, u64>>
        ::planus::WriteAs<::planus::Offset<DataSegment>> for DataSegmentBuilder<(T0, T1)>
    {
        type Prepared = ::planus::Offset<DataSegment>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<DataSegment> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl<T0: ::planus::WriteAsDefault<u64, u64>, T1: ::planus::WriteAsDefault<u64, u64>>
        ::planus::WriteAsOptional<::planus::Offset<DataSegment>> for DataSegmentBuilder<(T0, T1)>
    {
        type Prepared = ::planus::Offset<DataSegment>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<DataSegment>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl<T0: ::planus::WriteAsDefault<u64, u64>, T1: ::planus::WriteAsDefault<u64, u64>>
        ::planus::WriteAsOffset<DataSegment> for DataSegmentBuilder<(T0, T1)>
    {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<DataSegment> {
            let (v0, v1) = &self.0;
            DataSegment::create(builder, v0, v1)
        }
    }

    /// Reference to a deserialized [DataSegment].
    #[derive(Copy, Clone)]
    pub struct DataSegmentRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

    impl<'a> DataSegmentRef<'a> {
        /// Getter for the [`offset` field](DataSegment#structfield.offset).
        #[inline]
        pub fn offset(&self) -> ::planus::Result<u64> {
            ::core::result::Result::Ok(self.0.access(0, "DataSegment", "offset")?.unwrap_or(0))
        }

        /// Getter for the [`size` field](DataSegment#structfield.size).
        #[inline]
        pub fn size(&self) -> ::planus::Result<u64> {
            ::core::result::Result::Ok(self.0.access(1, "DataSegment", "size")?.unwrap_or(0))
        }
    }

    impl<'a> ::core::fmt::Debug for DataSegmentRef<'a> {
        fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
            let mut f = f.debug_struct("DataSegmentRef");
            f.field("offset", &self.offset());
            f.field("size", &self.size());
            f.finish()
        }
    }

    impl<'a> ::core::convert::TryFrom<DataSegmentRef<'a>> for DataSegment {
        type Error = ::planus::Error;

        #[allow(unreachable_code)]
        fn try_from(value: DataSegmentRef<'a>) -> ::planus::Result<Self> {
            ::core::result::Result::Ok(Self {
                offset: ::core::convert::TryInto::try_into(value.offset()?)?,
                size: ::core::convert::TryInto::try_into(value.size()?)?,
            })
        }
    }

    impl<'a> ::planus::TableRead<'a> for DataSegmentRef<'a> {
        #[inline]
        fn from_buffer(
            buffer: ::planus::SliceWithStartOffset<'a>,
            offset: usize,
        ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
            ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
        }
    }

    impl<'a> ::planus::VectorReadInner<'a> for DataSegmentRef<'a> {
        type Error = ::planus::Error;
        const STRIDE: usize = 4;

        unsafe fn from_buffer(buffer: ::planus::SliceWithStartOffset<'a>, offset: usize) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                error_kind.with_error_location("[DataSegmentRef]", "get", buffer.offset_from_start)
            })
        }
    }

    /// # Safety
    /// The planus compiler generates implementations that initialize
    /// the bytes in `write_values`.
    unsafe impl ::planus::VectorWrite<::planus::Offset<DataSegment>> for DataSegment {
        type Value = ::planus::Offset<DataSegment>;
        const STRIDE: usize = 4;
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
            ::planus::WriteAs::prepare(self, builder)
        }

        #[inline]
        unsafe fn write_values(
            values: &[::planus::Offset<DataSegment>],
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

    impl<'a> ::planus::ReadAsRoot<'a> for DataSegmentRef<'a> {
        fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 }, 0)
                .map_err(|error_kind| error_kind.with_error_location("[DataSegmentRef]", "read_as_root", 0))
        }
    }

    /// The table `NamedData`
    ///
    /// Generated from these locations:
    /// * Table `NamedData` in the file `schema/flat_tensor.fbs:5`
    #[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash)]
    pub struct NamedData {
        /// The field `key` in the table `NamedData`
        pub key: ::core::option::Option<::planus::alloc::string::String>,
        /// The field `segment_index` in the table `NamedData`
        pub segment_index: u32,
    }

    #[allow(clippy::derivable_impls)]
    impl ::core::default::Default for NamedData {
        fn default() -> Self {
            Self { key: ::core::default::Default::default(), segment_index: 0 }
        }
    }

    impl NamedData {
        /// Creates a [NamedDataBuilder] for serializing an instance of this table.
        #[inline]
        pub fn builder() -> NamedDataBuilder<()> {
            NamedDataBuilder(())
        }

        #[allow(clippy::too_many_arguments)]
        pub fn create(
            builder: &mut ::planus::Builder,
            field_key: impl ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
            field_segment_index: impl ::planus::WriteAsDefault<u32, u32>,
        ) -> ::planus::Offset<Self> {
            let prepared_key = field_key.prepare(builder);
            let prepared_segment_index = field_segment_index.prepare(builder, &0);

            let mut table_writer: ::planus::table_writer::TableWriter<8> = ::core::default::Default::default();
            if prepared_key.is_some() {
                table_writer.write_entry::<::planus::Offset<str>>(0);
            }
            if prepared_segment_index.is_some() {
                table_writer.write_entry::<u32>(1);
            }

            unsafe {
                table_writer.finish(builder, |object_writer| {
                    if let ::core::option::Option::Some(prepared_key) = prepared_key {
                        object_writer.write::<_, _, 4>(&prepared_key);
                    }
                    if let ::core::option::Option::Some(prepared_segment_index) = prepared_segment_index {
                        object_writer.write::<_, _, 4>(&prepared_segment_index);
                    }
                });
            }
            builder.current_offset()
        }
    }

    impl ::planus::WriteAs<::planus::Offset<NamedData>> for NamedData {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<NamedData> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl ::planus::WriteAsOptional<::planus::Offset<NamedData>> for NamedData {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<NamedData>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl ::planus::WriteAsOffset<NamedData> for NamedData {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<NamedData> {
            NamedData::create(builder, &self.key, self.segment_index)
        }
    }

    /// Builder for serializing an instance of the [NamedData] type.
    ///
    /// Can be created using the [NamedData::builder] method.
    #[derive(Debug)]
    #[must_use]
    pub struct NamedDataBuilder<State>(State);

    impl NamedDataBuilder<()> {
        /// Setter for the [`key` field](NamedData#structfield.key).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn key<T0>(self, value: T0) -> NamedDataBuilder<(T0,)>
        where
            T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        {
            NamedDataBuilder((value,))
        }

        /// Sets the [`key` field](NamedData#structfield.key) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn key_as_null(self) -> NamedDataBuilder<((),)> {
            self.key(())
        }
    }

    impl<T0> NamedDataBuilder<(T0,)> {
        /// Setter for the [`segment_index` field](NamedData#structfield.segment_index).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn segment_index<T1>(self, value: T1) -> NamedDataBuilder<(T0, T1)>
        where
            T1: ::planus::WriteAsDefault<u32, u32>,
        {
            let (v0,) = self.0;
            NamedDataBuilder((v0, value))
        }

        /// Sets the [`segment_index` field](NamedData#structfield.segment_index) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn segment_index_as_default(self) -> NamedDataBuilder<(T0, ::planus::DefaultValue)> {
            self.segment_index(::planus::DefaultValue)
        }
    }

    impl<T0, T1> NamedDataBuilder<(T0, T1)> {
        /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [NamedData].
        #[inline]
        pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<NamedData>
        where
            Self: ::planus::WriteAsOffset<NamedData>,
        {
            ::planus::WriteAsOffset::prepare(&self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T1: ::planus::WriteAsDefault<u32, u32>,
    > ::planus::WriteAs<::planus::Offset<NamedData>> for NamedDataBuilder<(T0, T1)>
    {
        type Prepared = ::planus::Offset<NamedData>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<NamedData> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T1: ::planus::WriteAsDefault<u32, u32>,
    > ::planus::WriteAsOptional<::planus::Offset<NamedData>> for NamedDataBuilder<(T0, T1)>
    {
        type Prepared = ::planus::Offset<NamedData>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<NamedData>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl<
        T0: ::planus::WriteAsOptional<::planus::Offset<::core::primitive::str>>,
        T1: ::planus::WriteAsDefault<u32, u32>,
    > ::planus::WriteAsOffset<NamedData> for NamedDataBuilder<(T0, T1)>
    {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<NamedData> {
            let (v0, v1) = &self.0;
            NamedData::create(builder, v0, v1)
        }
    }

    /// Reference to a deserialized [NamedData].
    #[derive(Copy, Clone)]
    pub struct NamedDataRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

    impl<'a> NamedDataRef<'a> {
        /// Getter for the [`key` field](NamedData#structfield.key).
        #[inline]
        pub fn key(&self) -> ::planus::Result<::core::option::Option<&'a ::core::primitive::str>> {
            self.0.access(0, "NamedData", "key")
        }

        /// Getter for the [`segment_index` field](NamedData#structfield.segment_index).
        #[inline]
        pub fn segment_index(&self) -> ::planus::Result<u32> {
            ::core::result::Result::Ok(self.0.access(1, "NamedData", "segment_index")?.unwrap_or(0))
        }
    }

    impl<'a> ::core::fmt::Debug for NamedDataRef<'a> {
        fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
            let mut f = f.debug_struct("NamedDataRef");
            if let ::core::option::Option::Some(field_key) = self.key().transpose() {
                f.field("key", &field_key);
            }
            f.field("segment_index", &self.segment_index());
            f.finish()
        }
    }

    impl<'a> ::core::convert::TryFrom<NamedDataRef<'a>> for NamedData {
        type Error = ::planus::Error;

        #[allow(unreachable_code)]
        fn try_from(value: NamedDataRef<'a>) -> ::planus::Result<Self> {
            ::core::result::Result::Ok(Self {
                key: value.key()?.map(::core::convert::Into::into),
                segment_index: ::core::convert::TryInto::try_into(value.segment_index()?)?,
            })
        }
    }

    impl<'a> ::planus::TableRead<'a> for NamedDataRef<'a> {
        #[inline]
        fn from_buffer(
            buffer: ::planus::SliceWithStartOffset<'a>,
            offset: usize,
        ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
            ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
        }
    }

    impl<'a> ::planus::VectorReadInner<'a> for NamedDataRef<'a> {
        type Error = ::planus::Error;
        const STRIDE: usize = 4;

        unsafe fn from_buffer(buffer: ::planus::SliceWithStartOffset<'a>, offset: usize) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(buffer, offset)
                .map_err(|error_kind| error_kind.with_error_location("[NamedDataRef]", "get", buffer.offset_from_start))
        }
    }

    /// # Safety
    /// The planus compiler generates implementations that initialize
    /// the bytes in `write_values`.
    unsafe impl ::planus::VectorWrite<::planus::Offset<NamedData>> for NamedData {
        type Value = ::planus::Offset<NamedData>;
        const STRIDE: usize = 4;
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
            ::planus::WriteAs::prepare(self, builder)
        }

        #[inline]
        unsafe fn write_values(
            values: &[::planus::Offset<NamedData>],
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

    impl<'a> ::planus::ReadAsRoot<'a> for NamedDataRef<'a> {
        fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 }, 0)
                .map_err(|error_kind| error_kind.with_error_location("[NamedDataRef]", "read_as_root", 0))
        }
    }

    /// The table `FlatTensor`
    ///
    /// Generated from these locations:
    /// * Table `FlatTensor` in the file `schema/flat_tensor.fbs:7`
    #[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash)]
    pub struct FlatTensor {
        /// The field `version` in the table `FlatTensor`
        pub version: u32,
        /// The field `segments` in the table `FlatTensor`
        pub segments: ::core::option::Option<::planus::alloc::vec::Vec<self::DataSegment>>,
        /// The field `named_data` in the table `FlatTensor`
        pub named_data: ::core::option::Option<::planus::alloc::vec::Vec<self::NamedData>>,
    }

    #[allow(clippy::derivable_impls)]
    impl ::core::default::Default for FlatTensor {
        fn default() -> Self {
            Self {
                version: 0,
                segments: ::core::default::Default::default(),
                named_data: ::core::default::Default::default(),
            }
        }
    }

    impl FlatTensor {
        /// Creates a [FlatTensorBuilder] for serializing an instance of this table.
        #[inline]
        pub fn builder() -> FlatTensorBuilder<()> {
            FlatTensorBuilder(())
        }

        #[allow(clippy::too_many_arguments)]
        pub fn create(
            builder: &mut ::planus::Builder,
            field_version: impl ::planus::WriteAsDefault<u32, u32>,
            field_segments: impl ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::DataSegment>]>>,
            field_named_data: impl ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::NamedData>]>>,
        ) -> ::planus::Offset<Self> {
            let prepared_version = field_version.prepare(builder, &0);
            let prepared_segments = field_segments.prepare(builder);
            let prepared_named_data = field_named_data.prepare(builder);

            let mut table_writer: ::planus::table_writer::TableWriter<10> = ::core::default::Default::default();
            if prepared_version.is_some() {
                table_writer.write_entry::<u32>(0);
            }
            if prepared_segments.is_some() {
                table_writer.write_entry::<::planus::Offset<[::planus::Offset<self::DataSegment>]>>(1);
            }
            if prepared_named_data.is_some() {
                table_writer.write_entry::<::planus::Offset<[::planus::Offset<self::NamedData>]>>(2);
            }

            unsafe {
                table_writer.finish(builder, |object_writer| {
                    if let ::core::option::Option::Some(prepared_version) = prepared_version {
                        object_writer.write::<_, _, 4>(&prepared_version);
                    }
                    if let ::core::option::Option::Some(prepared_segments) = prepared_segments {
                        object_writer.write::<_, _, 4>(&prepared_segments);
                    }
                    if let ::core::option::Option::Some(prepared_named_data) = prepared_named_data {
                        object_writer.write::<_, _, 4>(&prepared_named_data);
                    }
                });
            }
            builder.current_offset()
        }
    }

    impl ::planus::WriteAs<::planus::Offset<FlatTensor>> for FlatTensor {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<FlatTensor> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl ::planus::WriteAsOptional<::planus::Offset<FlatTensor>> for FlatTensor {
        type Prepared = ::planus::Offset<Self>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<FlatTensor>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl ::planus::WriteAsOffset<FlatTensor> for FlatTensor {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<FlatTensor> {
            FlatTensor::create(builder, self.version, &self.segments, &self.named_data)
        }
    }

    /// Builder for serializing an instance of the [FlatTensor] type.
    ///
    /// Can be created using the [FlatTensor::builder] method.
    #[derive(Debug)]
    #[must_use]
    pub struct FlatTensorBuilder<State>(State);

    impl FlatTensorBuilder<()> {
        /// Setter for the [`version` field](FlatTensor#structfield.version).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn version<T0>(self, value: T0) -> FlatTensorBuilder<(T0,)>
        where
            T0: ::planus::WriteAsDefault<u32, u32>,
        {
            FlatTensorBuilder((value,))
        }

        /// Sets the [`version` field](FlatTensor#structfield.version) to the default value.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn version_as_default(self) -> FlatTensorBuilder<(::planus::DefaultValue,)> {
            self.version(::planus::DefaultValue)
        }
    }

    impl<T0> FlatTensorBuilder<(T0,)> {
        /// Setter for the [`segments` field](FlatTensor#structfield.segments).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn segments<T1>(self, value: T1) -> FlatTensorBuilder<(T0, T1)>
        where
            T1: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::DataSegment>]>>,
        {
            let (v0,) = self.0;
            FlatTensorBuilder((v0, value))
        }

        /// Sets the [`segments` field](FlatTensor#structfield.segments) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn segments_as_null(self) -> FlatTensorBuilder<(T0, ())> {
            self.segments(())
        }
    }

    impl<T0, T1> FlatTensorBuilder<(T0, T1)> {
        /// Setter for the [`named_data` field](FlatTensor#structfield.named_data).
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn named_data<T2>(self, value: T2) -> FlatTensorBuilder<(T0, T1, T2)>
        where
            T2: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::NamedData>]>>,
        {
            let (v0, v1) = self.0;
            FlatTensorBuilder((v0, v1, value))
        }

        /// Sets the [`named_data` field](FlatTensor#structfield.named_data) to null.
        #[inline]
        #[allow(clippy::type_complexity)]
        pub fn named_data_as_null(self) -> FlatTensorBuilder<(T0, T1, ())> {
            self.named_data(())
        }
    }

    impl<T0, T1, T2> FlatTensorBuilder<(T0, T1, T2)> {
        /// Finish writing the builder to get an [Offset](::planus::Offset) to a serialized [FlatTensor].
        #[inline]
        pub fn finish(self, builder: &mut ::planus::Builder) -> ::planus::Offset<FlatTensor>
        where
            Self: ::planus::WriteAsOffset<FlatTensor>,
        {
            ::planus::WriteAsOffset::prepare(&self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsDefault<u32, u32>,
        T1: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::DataSegment>]>>,
        T2: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::NamedData>]>>,
    > ::planus::WriteAs<::planus::Offset<FlatTensor>> for FlatTensorBuilder<(T0, T1, T2)>
    {
        type Prepared = ::planus::Offset<FlatTensor>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<FlatTensor> {
            ::planus::WriteAsOffset::prepare(self, builder)
        }
    }

    impl<
        T0: ::planus::WriteAsDefault<u32, u32>,
        T1: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::DataSegment>]>>,
        T2: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::NamedData>]>>,
    > ::planus::WriteAsOptional<::planus::Offset<FlatTensor>> for FlatTensorBuilder<(T0, T1, T2)>
    {
        type Prepared = ::planus::Offset<FlatTensor>;

        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::core::option::Option<::planus::Offset<FlatTensor>> {
            ::core::option::Option::Some(::planus::WriteAsOffset::prepare(self, builder))
        }
    }

    impl<
        T0: ::planus::WriteAsDefault<u32, u32>,
        T1: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::DataSegment>]>>,
        T2: ::planus::WriteAsOptional<::planus::Offset<[::planus::Offset<self::NamedData>]>>,
    > ::planus::WriteAsOffset<FlatTensor> for FlatTensorBuilder<(T0, T1, T2)>
    {
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> ::planus::Offset<FlatTensor> {
            let (v0, v1, v2) = &self.0;
            FlatTensor::create(builder, v0, v1, v2)
        }
    }

    /// Reference to a deserialized [FlatTensor].
    #[derive(Copy, Clone)]
    pub struct FlatTensorRef<'a>(#[allow(dead_code)] ::planus::table_reader::Table<'a>);

    impl<'a> FlatTensorRef<'a> {
        /// Getter for the [`version` field](FlatTensor#structfield.version).
        #[inline]
        pub fn version(&self) -> ::planus::Result<u32> {
            ::core::result::Result::Ok(self.0.access(0, "FlatTensor", "version")?.unwrap_or(0))
        }

        /// Getter for the [`segments` field](FlatTensor#structfield.segments).
        #[inline]
        pub fn segments(
            &self,
        ) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, ::planus::Result<self::DataSegmentRef<'a>>>>>
        {
            self.0.access(1, "FlatTensor", "segments")
        }

        /// Getter for the [`named_data` field](FlatTensor#structfield.named_data).
        #[inline]
        pub fn named_data(
            &self,
        ) -> ::planus::Result<::core::option::Option<::planus::Vector<'a, ::planus::Result<self::NamedDataRef<'a>>>>>
        {
            self.0.access(2, "FlatTensor", "named_data")
        }
    }

    impl<'a> ::core::fmt::Debug for FlatTensorRef<'a> {
        fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
            let mut f = f.debug_struct("FlatTensorRef");
            f.field("version", &self.version());
            if let ::core::option::Option::Some(field_segments) = self.segments().transpose() {
                f.field("segments", &field_segments);
            }
            if let ::core::option::Option::Some(field_named_data) = self.named_data().transpose() {
                f.field("named_data", &field_named_data);
            }
            f.finish()
        }
    }

    impl<'a> ::core::convert::TryFrom<FlatTensorRef<'a>> for FlatTensor {
        type Error = ::planus::Error;

        #[allow(unreachable_code)]
        fn try_from(value: FlatTensorRef<'a>) -> ::planus::Result<Self> {
            ::core::result::Result::Ok(Self {
                version: ::core::convert::TryInto::try_into(value.version()?)?,
                segments: if let ::core::option::Option::Some(segments) = value.segments()? {
                    ::core::option::Option::Some(segments.to_vec_result()?)
                } else {
                    ::core::option::Option::None
                },
                named_data: if let ::core::option::Option::Some(named_data) = value.named_data()? {
                    ::core::option::Option::Some(named_data.to_vec_result()?)
                } else {
                    ::core::option::Option::None
                },
            })
        }
    }

    impl<'a> ::planus::TableRead<'a> for FlatTensorRef<'a> {
        #[inline]
        fn from_buffer(
            buffer: ::planus::SliceWithStartOffset<'a>,
            offset: usize,
        ) -> ::core::result::Result<Self, ::planus::errors::ErrorKind> {
            ::core::result::Result::Ok(Self(::planus::table_reader::Table::from_buffer(buffer, offset)?))
        }
    }

    impl<'a> ::planus::VectorReadInner<'a> for FlatTensorRef<'a> {
        type Error = ::planus::Error;
        const STRIDE: usize = 4;

        unsafe fn from_buffer(buffer: ::planus::SliceWithStartOffset<'a>, offset: usize) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(buffer, offset).map_err(|error_kind| {
                error_kind.with_error_location("[FlatTensorRef]", "get", buffer.offset_from_start)
            })
        }
    }

    /// # Safety
    /// The planus compiler generates implementations that initialize
    /// the bytes in `write_values`.
    unsafe impl ::planus::VectorWrite<::planus::Offset<FlatTensor>> for FlatTensor {
        type Value = ::planus::Offset<FlatTensor>;
        const STRIDE: usize = 4;
        #[inline]
        fn prepare(&self, builder: &mut ::planus::Builder) -> Self::Value {
            ::planus::WriteAs::prepare(self, builder)
        }

        #[inline]
        unsafe fn write_values(
            values: &[::planus::Offset<FlatTensor>],
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

    impl<'a> ::planus::ReadAsRoot<'a> for FlatTensorRef<'a> {
        fn read_as_root(slice: &'a [u8]) -> ::planus::Result<Self> {
            ::planus::TableRead::from_buffer(::planus::SliceWithStartOffset { buffer: slice, offset_from_start: 0 }, 0)
                .map_err(|error_kind| error_kind.with_error_location("[FlatTensorRef]", "read_as_root", 0))
        }
    }
}
