cdef void order_first_found(const Problem* q, Hunt* h) noexcept nogil:
    pass
