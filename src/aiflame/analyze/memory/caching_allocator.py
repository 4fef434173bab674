"""torch's caching allocator of device memory as a model: the same requests give the same addresses, or those with expandable segments.

The rules are those of `c10/cuda/CUDACachingAllocator.cpp` with default settings, as in torch 2.11: the best fit among free blocks of a
stream's small or large pool, and of equal sizes the lowest address; a block is split where enough remains; free neighbours merge.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from aiflame.values import dataclass

MOST_SMALL = 1 << 20
"""Requests up to here are in the small pool."""
_SMALL_SEGMENT, _LARGE_SEGMENT, _LEAST_ALONE, _ROUNDED_TO = 2 << 20, 20 << 20, 10 << 20, 2 << 20
_LEAST_REST = 512
_ROOM = 1 << 46
"""Bytes of addresses of an expandable segment."""
Pool = tuple[object, bool]
"""A stream's, small or large."""


@dataclass(slots=True)
class Block:
    address: int
    size: int
    segment: int
    free: bool = True
    mapped: bool = True


def segment_bytes(size: int) -> int:
    """Of the segment that the allocator requests from the driver where no free block fits."""
    if size <= MOST_SMALL:
        return _SMALL_SEGMENT
    return _LARGE_SEGMENT if size < _LEAST_ALONE else -(-size // _ROUNDED_TO) * _ROUNDED_TO


class _Blocks:
    """The blocks of all segments by address, and the free ones of each pool by size and address."""

    def __init__(self) -> None:
        self.held = 0
        self._at: dict[int, Block] = {}
        self._ends: dict[int, Block] = {}
        self._free: dict[Pool, list[tuple[int, int]]] = {}

    def free_blocks(self, pool: Pool) -> list[tuple[int, int]]:
        return self._free.setdefault(pool, [])

    def at(self, address: int) -> Block:
        return self._at[address]

    def after(self, block: Block) -> Block | None:
        following = self._at.get(block.address + block.size)
        return following if following and following.segment == block.segment else None

    def before(self, block: Block) -> Block | None:
        earlier = self._ends.get(block.address)
        return earlier if earlier and earlier.segment == block.segment else None

    def add(self, pool: Pool, block: Block) -> None:
        self._at[block.address] = self._ends[block.address + block.size] = block
        if block.free and block.mapped:
            insort(self.free_blocks(pool), (block.size, block.address))

    def remove(self, pool: Pool, block: Block) -> None:
        del self._at[block.address], self._ends[block.address + block.size]
        if block.free and block.mapped:
            free = self.free_blocks(pool)
            del free[bisect_left(free, (block.size, block.address))]

    def merged(self, pool: Pool, block: Block) -> Block:
        """Adds a free block, as one with its free neighbours."""
        for near in (self.before(block), self.after(block)):
            if near and near.free and near.mapped == block.mapped:
                self.remove(pool, near)
                block = Block(min(block.address, near.address), block.size + near.size, block.segment, mapped=block.mapped)
        self.add(pool, block)
        return block

    def given(self, pool: Pool, block: Block, size: int, least_rest: int) -> int:
        """Gives a free block to the program, without its end where that is large enough."""
        self.remove(pool, block)
        size = size if block.size - size >= least_rest else block.size
        self.add(pool, Block(block.address, size, block.segment, free=False))
        if size < block.size:
            self.add(pool, Block(block.address + size, block.size - size, block.segment))
        return block.address

    def take_back(self, key: object, address: int, size: int) -> None:
        pool = key, size <= MOST_SMALL
        block = self._at[address]
        self.remove(pool, block)
        self.merged(pool, Block(block.address, block.size, block.segment))


class DefaultAllocator(_Blocks):
    def allocate(self, key: object, size: int, segment: int) -> int:
        """The address. `segment`: of the new one, where the driver is asked."""
        pool = key, size <= MOST_SMALL
        free = self.free_blocks(pool)
        fit = bisect_left(free, (size, 0))
        if fit == len(free):
            self.held += segment_bytes(size)
            block = Block(segment, segment_bytes(size), segment)
            self.add(pool, block)
        else:
            block = self.at(free[fit][1])
        return self.given(pool, block, size, _LEAST_REST if pool[1] else MOST_SMALL + 1)

    def give_back(self, key: object, segment: int, size: int) -> bool:
        """Gives a segment back to the driver; False: there is no such one, or a block is in it."""
        block = self._at.get(segment)
        if not block or not block.free or block.size != size or block.segment != segment:
            return False
        pool = next(pool for pool in ((key, True), (key, False)) if (size, segment) in self.free_blocks(pool))
        self.remove(pool, block)
        self.held -= size
        return True


class ExpandableAllocator(_Blocks):
    """With `expandable_segments:True`: each pool has one range of addresses, in which memory is mapped in pages."""

    def __init__(self) -> None:
        super().__init__()
        self._unmapped: dict[Pool, list[int]] = {}

    def allocate(self, key: object, size: int) -> int:
        pool = key, size <= MOST_SMALL
        free = self.free_blocks(pool)
        fit = bisect_left(free, (size, 0))
        while fit + 1 < len(free) and self._could_be(free[fit + 1][1]) < self._could_be(free[fit][1]):
            fit += 1
        block = self.at(free[fit][1]) if fit < len(free) else self._expanded(pool, size)
        return self.given(pool, block, size, _LEAST_REST)

    def give_back(self) -> None:
        """Unmaps all pages in which no block is."""
        for pool in list(self._unmapped):
            page = _page(pool)
            for size, address in list(self.free_blocks(pool)):
                block = self.at(address)
                offset = address - block.segment
                begin, end = (block.segment + at // page * page for at in (offset + page - 1, offset + size))
                if begin >= end:
                    continue
                self.remove(pool, block)
                for first, last in ((address, begin), (end, address + size)):
                    if first < last:
                        self.add(pool, Block(first, last - first, block.segment))
                self.held -= end - begin
                self._unmap(pool, Block(begin, end - begin, block.segment, mapped=False))

    def _could_be(self, address: int) -> int:
        """The size of a free block with the unmapped addresses behind it."""
        block = self.at(address)
        following = self.after(block)
        return block.size + (following.size if following and not following.mapped else 0)

    def _expanded(self, pool: Pool, size: int) -> Block:
        """A free block of the size or larger, where memory had to be mapped: at the lowest addresses that have room."""
        if pool not in self._unmapped:
            first = (len(self._unmapped) + 1) * _ROOM
            self._unmapped[pool] = []
            self._unmap(pool, Block(first, _ROOM, first, mapped=False))
        for address in self._unmapped[pool]:
            unmapped = self.at(address)
            earlier = self.before(unmapped)
            block = earlier if earlier and earlier.free else unmapped
            if self._room_from(block) >= size:
                break
        else:
            raise AssertionError("an expandable segment has room for any request")
        if not block.mapped:
            block = self._mapped(pool, block, min(block.size, size))
        while block.size < size:
            following = self.after(block)
            assert following is not None
            block = self._mapped(pool, following, min(following.size, size - block.size))
        return block

    def _room_from(self, block: Block | None) -> int:
        room = 0
        while block and block.free:
            room += block.size
            block = self.after(block)
        return room

    def _mapped(self, pool: Pool, block: Block, size: int) -> Block:
        """Maps the begin of an unmapped block: whole pages, which become one with free neighbours."""
        page = _page(pool)
        mapped = min(-(-size // page) * page, block.size)
        self.remove(pool, block)
        unmapped = self._unmapped[pool]
        del unmapped[bisect_left(unmapped, block.address)]
        if mapped < block.size:
            self._unmap(pool, Block(block.address + mapped, block.size - mapped, block.segment, mapped=False))
        self.held += mapped
        return self.merged(pool, Block(block.address, mapped, block.segment))

    def _unmap(self, pool: Pool, block: Block) -> None:
        for near in (self.before(block), self.after(block)):
            if near and near.free and not near.mapped:
                unmapped = self._unmapped[pool]
                del unmapped[bisect_left(unmapped, near.address)]
        insort(self._unmapped[pool], self.merged(pool, block).address)


def _page(pool: Pool) -> int:
    return _SMALL_SEGMENT if pool[1] else _LARGE_SEGMENT
