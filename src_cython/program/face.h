/* Types whose instances are called without a tuple of arguments (PEP 590): Cython has no word for them. */
#ifndef POP_FACE_H
#define POP_FACE_H
#include <Python.h>
#include <stdint.h>
#include <structmember.h>

/* Have the instances of a type called by the function that each holds at `offset`. */
static void pop_call_directly(PyTypeObject *type, Py_ssize_t offset)
{
    type->tp_vectorcall_offset = offset;
    type->tp_call = PyVectorcall_Call;
    type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    PyType_Modified(type);
}

/* Where an object holds a slot of its class, or -1 if the name is none. */
static Py_ssize_t pop_slot_offset(PyObject *type, PyObject *name)
{
    PyObject *descriptor = PyObject_GetAttr(type, name);
    Py_ssize_t offset = -1;
    if (descriptor && Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
        if (member->type == T_OBJECT_EX) offset = member->offset;
    }
    Py_XDECREF(descriptor);
    PyErr_Clear();
    return offset;
}

static inline void pop_set_slot(PyObject *owner, Py_ssize_t offset, PyObject *value)
{
    PyObject **slot = (PyObject **)((char *)owner + offset), *before = *slot;
    Py_XINCREF(value);
    *slot = value;
    Py_XDECREF(before);
}

/* A new object of a class with slots alone, none of them set. */
static inline PyObject *pop_new(PyObject *type) { return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0); }

/* A new tuple, or one of a class of tuples without slots, of so many items that are still to be put there. */
static inline PyObject *pop_new_tuple(PyObject *type, Py_ssize_t n)
{
    return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, n);
}

/* Memory that results of no great size look at, which no array need own: to make one takes twice as long. */
typedef struct pop_held {
    PyObject_VAR_HEAD
    int64_t apart; /* from what is held, which begins at a multiple of 16 bytes */
    char at[];
} pop_held;
static PyTypeObject pop_held_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "poplibs_py.program._executor.Held",
    .tp_basicsize = sizeof(pop_held),
    .tp_itemsize = 1,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Memory of several results.",
};
static inline PyObject *pop_hold(Py_ssize_t bytes) { return (PyObject *)PyObject_NewVar(pop_held, &pop_held_type, bytes); }
static inline char *pop_held_at(PyObject *held) { return ((pop_held *)held)->at; }

static inline PyObject *pop_get_slot(PyObject *owner, Py_ssize_t offset) { return *(PyObject **)((char *)owner + offset); }

static inline int pop_is_interned(PyObject *text)
{
    return PyUnicode_CheckExact(text) && PyUnicode_CHECK_INTERNED(text);
}
#endif
