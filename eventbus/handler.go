package eventbus

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// A handler is a subscribed function with everything reflection can tell about
// it ahead of a publication.
type handler struct {
	fn      reflect.Value
	name    string // as in a stack trace, without the directories
	params  []reflect.Type
	results results
}

// results classifies what a function returns.
type results int

const (
	noResult results = iota
	oneError
	unsuitable
)

func newHandler(fn any) (*handler, error) {
	v := reflect.ValueOf(fn)
	switch {
	case v.Kind() != reflect.Func:
		return nil, fmt.Errorf("%w: not a function", ErrInvalidHandler)
	case v.IsNil():
		return nil, fmt.Errorf("%w: nil function", ErrInvalidHandler)
	case v.Type().IsVariadic():
		return nil, fmt.Errorf("%w: variadic function", ErrInvalidHandler)
	}
	return &handler{
		fn:      v,
		name:    funcName(v),
		params:  slices.Collect(v.Type().Ins()),
		results: resultsOf(v.Type()),
	}, nil
}

func funcName(fn reflect.Value) string {
	name := runtime.FuncForPC(fn.Pointer()).Name()
	return name[strings.LastIndexByte(name, '/')+1:]
}

// resultsOf insists on the type error itself. A concrete error type would turn
// its nil pointer into a failure, and a wider interface says something about
// the outcome that the bus would ignore.
func resultsOf(fn reflect.Type) results {
	switch {
	case fn.NumOut() == 0:
		return noResult
	case fn.NumOut() == 1 && fn.Out(0) == reflect.TypeFor[error]():
		return oneError
	}
	return unsuitable
}

func (h *handler) accepts(args []reflect.Value) bool {
	if len(args) != len(h.params) {
		return false
	}
	for i, arg := range args {
		if !assignable(arg, h.params[i]) {
			return false
		}
	}
	return true
}

func assignable(arg reflect.Value, param reflect.Type) bool {
	if isUntypedNil(arg) {
		return nilable(param)
	}
	return arg.Type().AssignableTo(param)
}

func isUntypedNil(arg reflect.Value) bool { return !arg.IsValid() }

func nilable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map,
		reflect.Pointer, reflect.Slice, reflect.UnsafePointer:
		return true
	}
	return false
}

// run calls the function with args it accepts and turns a panic into an error.
func (h *handler) run(args []reflect.Value) (err error) {
	if h.results == unsuitable {
		return fmt.Errorf("%w: %s", ErrInvalidHandlerReturn, h.fn.Type())
	}

	// Not recover() != nil: under GODEBUG=panicnil=1 a panic may carry nil and
	// would pass for success.
	returned := false
	defer func() {
		if !returned {
			err = &PanicError{Value: recover(), Stack: debug.Stack()}
		}
	}()
	out := h.fn.Call(h.bind(args))
	returned = true

	if h.results == oneError {
		err, _ = out[0].Interface().(error)
	}
	return err
}

// bind gives each untyped nil the type of its parameter.
func (h *handler) bind(args []reflect.Value) []reflect.Value {
	if !slices.ContainsFunc(args, isUntypedNil) {
		return args
	}
	bound := slices.Clone(args)
	for i, arg := range bound {
		if isUntypedNil(arg) {
			bound[i] = reflect.Zero(h.params[i])
		}
	}
	return bound
}
