# The order in which the C++ library of GCC leaves what it sorts: PopLibs sorts rows and buckets by size, with many equals,
# and which of them moves decides every word of the meta-information. Descending by key.

cdef enum:
    FEW = 16                        # that are sorted by insertion


cdef struct Item:
    int64_t key
    int64_t begin
    int64_t number


cdef inline void swap_items(Item* a, Item* b) noexcept nogil:
    cdef Item held = a[0]
    a[0] = b[0]
    b[0] = held


cdef inline bint before(const Item* a, const Item* b) noexcept nogil:
    return a.key > b.key


cdef void insert_item(Item* items, int64_t at) noexcept nogil:
    """Move an item down to behind the last that is no smaller."""
    cdef Item held = items[at]
    while at > 0 and before(&held, &items[at - 1]):
        items[at] = items[at - 1]
        at -= 1
    items[at] = held


cdef void median_first(Item* first, Item* a, Item* b, Item* c) noexcept nogil:
    """Swap the median of three with the first."""
    cdef Item* median
    if before(a, b):
        median = b if before(b, c) else (c if before(a, c) else a)
    else:
        median = a if before(a, c) else (c if before(b, c) else b)
    swap_items(first, median)


cdef int64_t partition_items(Item* items, int64_t count) noexcept nogil:
    """Part items by the first of them; where the second part begins."""
    cdef int64_t low = 1, high = count
    while True:
        while before(&items[low], &items[0]):
            low += 1
        high -= 1
        while before(&items[0], &items[high]):
            high -= 1
        if low >= high:
            return low
        swap_items(&items[low], &items[high])
        low += 1


cdef void sink(Item* items, int64_t hole, int64_t count, Item value) noexcept nogil:
    """Fill a hole of a heap: the better child moves up until there is none, then the value rises to its place."""
    cdef int64_t top = hole, child = hole, parent
    while child < (count - 1) // 2:
        child = 2 * (child + 1)
        if before(&items[child], &items[child - 1]):
            child -= 1
        items[hole] = items[child]
        hole = child
    if count % 2 == 0 and child == (count - 2) // 2:
        child = 2 * child + 1
        items[hole] = items[child]
        hole = child
    parent = (hole - 1) // 2
    while hole > top and before(&items[parent], &value):
        items[hole] = items[parent]
        hole = parent
        parent = (hole - 1) // 2
    items[hole] = value


cdef void heap_sort(Item* items, int64_t count) noexcept nogil:
    cdef int64_t i
    cdef Item held
    for i in range((count - 2) // 2, -1, -1):
        sink(items, i, count, items[i])
    for i in range(count - 1, 0, -1):
        held = items[i]
        items[i] = items[0]
        sink(items, 0, i, held)


cdef void part_items(Item* items, int64_t count, int depth) noexcept nogil:
    """Part items until few are left of each part; by a heap where parts do not shrink."""
    cdef int64_t cut
    while count > FEW:
        if depth == 0:
            heap_sort(items, count)
            return
        depth -= 1
        median_first(items, &items[1], &items[count // 2], &items[count - 1])
        cut = partition_items(items, count)
        part_items(&items[cut], count - cut, depth)
        count = cut


cdef void sort_items(Item* items, int64_t count) noexcept nogil:
    """Sort items, the largest key first."""
    cdef int64_t i = count
    cdef int depth = 0
    while i > 1:
        depth += 2
        i //= 2
    part_items(items, count, depth)
    for i in range(1, count):
        insert_item(items, i)
