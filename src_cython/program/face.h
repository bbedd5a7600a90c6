/* Types whose instances are called without a tuple of arguments (PEP 590): Cython has no word for them. */
#ifndef POP_FACE_H
#define POP_FACE_H
#include <Python.h>

/* Have the instances of a type called by the function that each holds at `offset`. */
static void pop_call_directly(PyTypeObject *type, Py_ssize_t offset)
{
    type->tp_vectorcall_offset = offset;
    type->tp_call = PyVectorcall_Call;
    type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    PyType_Modified(type);
}

static inline int pop_is_interned(PyObject *text)
{
    return PyUnicode_CheckExact(text) && PyUnicode_CHECK_INTERNED(text);
}
#endif
