# Which arrays share memory: asked of what a call writes to, by Python and where calls are found again alike.

cdef enum:
    MOST_STEPPED = 8  # axes that are asked about one by one


cdef struct Stepped:
    int64_t step
    int64_t least, most  # steps from an element of the one array to an element of the other


cdef void reach_of(cnp.ndarray array, char **low, char **high) noexcept:
    """The first byte of an array, and the byte after its last."""
    cdef int i
    cdef int64_t reach
    low[0] = <char *>cnp.PyArray_DATA(array)
    high[0] = low[0]
    if cnp.PyArray_SIZE(array) == 0:
        return
    high[0] += cnp.PyArray_ITEMSIZE(array)
    for i in range(cnp.PyArray_NDIM(array)):
        reach = (cnp.PyArray_DIM(array, i) - 1) * cnp.PyArray_STRIDE(array, i)
        if reach < 0:
            low[0] += reach
        else:
            high[0] += reach


cdef int stepped_alike(cnp.ndarray a, cnp.ndarray b, Stepped *axes) noexcept:
    """Write the axes of two arrays, the shortest steps first; return how many, or -1 where steps differ or interlock."""
    cdef int i, k, n = 0
    cdef int64_t own, other, step, reach
    if cnp.PyArray_NDIM(a) != cnp.PyArray_NDIM(b):
        return -1
    for i in range(cnp.PyArray_NDIM(a)):
        own, other = cnp.PyArray_DIM(a, i) - 1, cnp.PyArray_DIM(b, i) - 1
        if own == 0 and other == 0:
            continue
        step = cnp.PyArray_STRIDE(a, i) if own else cnp.PyArray_STRIDE(b, i)
        if n == MOST_STEPPED or (own and other and step != cnp.PyArray_STRIDE(b, i)):
            return -1
        if step < 0:
            own, other, step = other, own, -step
        k = n
        while k and axes[k - 1].step > step:
            axes[k] = axes[k - 1]
            k -= 1
        axes[k] = Stepped(step, -own, other)
        n += 1
    reach = max(cnp.PyArray_ITEMSIZE(a), cnp.PyArray_ITEMSIZE(b))
    for k in range(n):
        if axes[k].step < reach:
            return -1
        reach += axes[k].step * max(-axes[k].least, axes[k].most)
    return n


cdef bint closes(int64_t gap, int n, const Stepped *axes, int64_t before, int64_t behind) noexcept:
    """Whether steps along axes bring what lies so many bytes behind an element to where both share a byte.

    Steps along shorter axes add up to less than one along the next, so that along each one or two remain to be tried.
    """
    cdef int64_t step, steps
    cdef int again
    if n == 0:
        return -behind < gap < before
    step = axes[n - 1].step
    steps = -(gap // step) if gap >= 0 else (step - 1 - gap) // step  # to the least gap that is not negative
    for again in range(2):
        if (axes[n - 1].least <= steps <= axes[n - 1].most
                and closes(gap + steps * step, n - 1, axes, before, behind)):
            return True
        steps -= 1
    return False


cdef bint meet(cnp.ndarray a, cnp.ndarray b) noexcept:
    """Whether two arrays share memory: exactly where they step alike, such as every second element of one array each;
    else whether their ranges do."""
    cdef char *low
    cdef char *high
    cdef char *first
    cdef char *end
    cdef Stepped axes[MOST_STEPPED]
    cdef int n
    reach_of(a, &low, &high)
    reach_of(b, &first, &end)
    if low >= end or first >= high or low == high or first == end:
        return False
    if cnp.PyArray_DATA(a) == cnp.PyArray_DATA(b):
        return True
    n = stepped_alike(a, b, axes)
    return n < 0 or closes(<char *>cnp.PyArray_DATA(b) - <char *>cnp.PyArray_DATA(a), n, axes,
                           cnp.PyArray_ITEMSIZE(a), cnp.PyArray_ITEMSIZE(b))


def share_memory(cnp.ndarray a not None, cnp.ndarray b not None):
    """Whether two arrays share memory, as `meet` decides it."""
    return meet(a, b)
