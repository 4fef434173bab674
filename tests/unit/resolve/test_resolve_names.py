"""C++ and Rust names as a person reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.names.cpp_names import shorten
from aiflame.resolve.names.long_names import outline
from aiflame.resolve.names.readable import LONGEST_FULL, LONGEST_SHORT, readable
from aiflame.resolve.names.rust_names import demangle_rust

SHORT = {
    # Functions of deep-learning frameworks.
    "at::_ops::addmm::call(at::Tensor const&, at::Tensor const&)": "at::_ops::addmm::call",
    "void at::native::(anonymous namespace)::foo<float>(at::Tensor&)": "at::native::foo",
    "at::native::add(at::Tensor&)::{lambda()#2}::operator()() const::{lambda(float, float)#1}::operator()(float, float) const": (
        "at::native::add::{lambda#2}::{lambda#1}"
    ),
    "auto ns::f<int>(int)::{lambda(auto:1)#1}::operator()<int>(int) const": "ns::f::{lambda#1}",
    "decltype(auto) c10::call<int>(c10::Fn const&)": "c10::call",
    "void c10::function_ref<void (char**, long const*, long, long)>::callback_fn<A<B>(int)::{lambda()#1}>(long, char**)": (
        "c10::function_ref::callback_fn"
    ),
    # Templates.
    "std::vector<int, std::allocator<int> >::push_back(int&&)": "std::vector::push_back",
    "std::vector<int, std::allocator<int>>::push_back(int&&)": "std::vector::push_back",
    "std::function<void (int)>::operator()(int) const": "std::function::operator()",
    "void f<(char)60, &(a::operator>(a, a))>(int)": "f",
    "void f<((1)>(2)), 3>::g(int)": "f::g",
    "std::enable_if<(sizeof (int))>(3), int>::type a::g<int>(int)": "a::g",
    "decltype (((a)->b)()) a::h<int>(int)": "a::h",
    # Operators.
    "std::ostream& operator<< <char>(std::ostream&, Foo<char> const&)": "operator<<",
    "bool a::operator< <int>(a::B<int> const&, a::B<int> const&)": "a::operator<",
    "bool a::operator<=> <int>(a::B<int> const&, a::B<int> const&)": "a::operator<=>",
    "a::B::operator->() const": "a::B::operator->",
    "a::B::operator->*(int)": "a::B::operator->*",
    "a::B::operator()(int) const": "a::B::operator()",
    "a::B::operator[](int)": "a::B::operator[]",
    "a::B::operator,(int)": "a::B::operator,",
    "a::B::operator==(a::B const&) const &": "a::B::operator==",
    "operator new(unsigned long)": "operator new",
    "operator new[](unsigned long)": "operator new[]",
    "a::B::operator std::string() const": "a::B::operator std::string",
    "a::B::operator bool() const": "a::B::operator bool",
    "a::B::operator unsigned long() const": "a::B::operator unsigned long",
    "a::B::operator std::vector<int, a::C>() const": "a::B::operator std::vector",
    'a::operator"" _km(long double)': 'a::operator""_km',
    "a::operators::plus(int)": "a::operators::plus",
    # Strings, destructors, thunks, clones, local types, pointers to functions.
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append(char const*)": "std::string::append",
    "std::__1::vector<int>::size() const": "std::vector::size",
    "a::B::~B()": "a::B::~B",
    "non-virtual thunk to A::f()": "A::f",
    "foo(int) [clone .cold]": "foo",
    "foo[abi:cxx11](int)": "foo",
    "a::b(int)::{unnamed type#1}::c()": "a::b::{unnamed type#1}::c",
    "(anonymous namespace)::f(int)": "f",
    "void (*a::f<int>(int))(char)": "a::f",
    "unsigned long a::size<int>(int) noexcept": "a::size",
    "plain": "plain",
    # Rust.
    "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop": "alloc::vec::Vec::drop",
    "core::ptr::drop_in_place<alloc::string::String>": "core::ptr::drop_in_place",
    "core::ptr::drop_in_place::<alloc::string::String>": "core::ptr::drop_in_place",
    "<a::Job<<b::Registry>::cross<u8>::{closure#0}, ()> as a::Run>::run::<u8>::{closure#1}": "a::Job::run::{closure#1}",
    "<<a::B as c::D>::E as c::F>::g": "a::B::E::g",
    "<&a::B as core::fmt::Debug>::fmt": "a::B::fmt",
    "<str>::parse::<u32>": "str::parse",
    "core::slice::<impl [T]>::iter": "core::slice::iter",
}


@pytest.mark.parametrize("full", SHORT)
def test_short_names(full: str) -> None:
    assert shorten(full) == SHORT[full]


SYMBOLS = {
    "_ZN2at4_ops5addmm4callERKNS_6TensorE": ("at::_ops::addmm::call", "at::_ops::addmm::call(at::Tensor const&)", Kind.CPP),
    "_ZN3foo3barEi.constprop.0.isra.0": ("foo::bar", "foo::bar(int) [clone .constprop.0] [clone .isra.0]", Kind.CPP),
    "_ZN3foo3barEi.llvm.123456": ("foo::bar", "foo::bar(int) [clone .llvm.123456]", Kind.CPP),
    "_Znwm@plt": ("operator new@plt", "operator new(unsigned long)@plt", Kind.CPP),
    "malloc@plt": ("malloc@plt", "malloc@plt", Kind.C),
    "foo.cold": ("foo", "foo.cold", Kind.C),
    "foo.part.3": ("foo", "foo.part.3", Kind.C),
    "mkl_blas.kernel": ("mkl_blas.kernel", "mkl_blas.kernel", Kind.C),
    "_ZNoise": ("_ZNoise", "_ZNoise", Kind.C),
    "_start": ("_start", "_start", Kind.C),
    "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE": (
        "core::ptr::drop_in_place",
        "core::ptr::drop_in_place<alloc::string::String>",
        Kind.CPP,
    ),
    "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE": (
        "alloc::string::String::fmt",
        "<alloc::string::String as core::fmt::Display>::fmt",
        Kind.CPP,
    ),
}


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_symbols(symbol: str) -> None:
    name = readable(symbol)
    assert (name.short, name.full, name.kind) == SYMBOLS[symbol]


RUST = {
    "_RNvNtCs1234_7mycrate3foo3bar": "mycrate::foo::bar",
    "_RINvNtC3std3mem8align_ofjE": "std::mem::align_of::<usize>",
    "_RNCNvC3foo3bar0": "foo::bar::{closure#0}",
    "_RNCNvC3foo3bars_0": "foo::bar::{closure#1}",
    "_RNvMs_C3fooNtB4_3Bar3baz": "<foo::Bar>::baz",
    "_RNvXs0_C3fooNtB5_3BarNtNtC4core3fmt5Debug3fmt": "<foo::Bar as core::fmt::Debug>::fmt",
    "_RINvC3foo3barAtj8_E": "foo::bar::<[u16; 8]>",
    "_RINvC3foo3barTReEE": "foo::bar::<(&str,)>",
    "_RINvC3foo3barFUKCPaQhEuE": 'foo::bar::<unsafe extern "C" fn(*const i8, &mut u8)>',
    "_RINvC3foo3barDNtC4core3AnypNtB8_4ItemlEL_E": None,  # a back reference to the middle of a name
    "_RINvC3foo3barDINtC4core4IterjEp4ItemlEL_E": "foo::bar::<dyn core::Iter<usize, Item = i32>>",
    "_RINvC3foo3barKln7f_Kb1_Kc61_E": "foo::bar::<-127, true, 'a'>",
    "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y": "utf8_idents::საჭმელად_გემრიელი_სადილი",
    "_RNvC3foo3bar.llvm.1234": "foo::bar",
    "_RNvC3foo9bar": None,
    "_R": None,
    "_RB_": None,
    "_Record": None,
}


@pytest.mark.parametrize("symbol", RUST)
def test_rust_symbols(symbol: str) -> None:
    assert demangle_rust(symbol) == RUST[symbol]


MANGLED = {
    "_ZN3app5outerIiEET_S1_": "app::outer",
    "_ZN3appL6hiddenEi": "app::hidden",
    "_ZN2at6native12_GLOBAL__N_13fooIfLi4ELb1EEEvRNS_6TensorE": "at::native::foo",
    "_ZN1aILPFviE0EE1fEv": "a::f",
    "_ZNSt6vectorIiSaIiEE9push_backEOi": "std::vector::push_back",
    "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc": "std::basic_string::append",
    "_ZZN3app3runEiENKUlvE_clEv": "app::run::{lambda#1}",
    "_ZZN3app3runEiENKUliE1_clEi": "app::run::{lambda#3}",
    "_ZN3app6WidgetC2Ev": "app::Widget::Widget",
    "_ZN3app6WidgetD0Ev": "app::Widget::~Widget",
    "_ZN3app6WidgetixEi": "app::Widget::operator[]",
    "_ZN1fIXadL_ZN1g1hILi12E1xEEvvEEEEvv": "f",
    "_ZThn96_N3app6Widget3runEv": "app::Widget::run",
    "_Z5plaini": "plain",
}


@pytest.mark.parametrize("symbol", MANGLED)
def test_outlines_of_mangled_names(symbol: str) -> None:
    assert outline(symbol) == MANGLED[symbol]


@pytest.mark.parametrize(
    "symbol", ["main", "_ZNoise", "_ZGVeN8v_Sleef_ceil", "_Z", "_ZN", "_Z9short", "_Z" + "Z" * 5000, "_Z" + "9" * 5000]
)
def test_a_name_that_is_not_mangled_has_no_outline(symbol: str) -> None:
    assert outline(symbol) is None


def test_a_name_too_long_for_the_demangler_has_its_outline() -> None:
    symbol = "_ZN3app5outerI" + "".join(f"N1n{len(part)}{part}E" for part in (f"type{number}" for number in range(900))) + "EEvv"
    name = readable(symbol)
    assert (name.short, name.kind) == ("app::outer", Kind.CPP)
    assert len(name.full) == LONGEST_FULL
    assert name.full.startswith("_ZN3app5outerIN1n5type0E")
    assert name.full.endswith("7type899EEEvv")


def test_a_name_without_structure_is_cut_at_both_ends() -> None:
    name = readable("begin" + "x" * 20_000 + "end")
    assert len(name.short) == LONGEST_SHORT
    assert name.short.startswith("beginx")
    assert name.short.endswith("xend")


def test_a_name_cannot_move_the_cursor_or_break_a_line() -> None:
    assert readable("a\x1b[2Jb\nc\td\x00e").short == "a?[2Jb?c?d?e"


@given(st.text(alphabet="ab:<>(){}[]&*,#0 -=~'operatornst", max_size=60))
def test_any_text_has_a_short_name_on_one_line(text: str) -> None:
    assert shorten(text) or not text
    assert "\0" not in shorten(text)


@given(st.text(alphabet="_ZNKSt3foo4barIiEvPRC1Xx0123456789.$LT", max_size=80))
def test_any_symbol_has_a_name(symbol: str) -> None:
    name = readable("_Z" + symbol)
    assert name.short
    assert name.full


@given(st.text(alphabet="CNIMXYBEsvtRTKjuLG_0123456789abcp", max_size=80))
def test_any_rust_symbol_has_a_name(symbol: str) -> None:
    assert readable("_R" + symbol).short
