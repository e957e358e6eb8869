package core

import (
	"fmt"
	"runtime/debug"
)

// Panic is a panic that ended one piece of work, and not the process.
type Panic struct {
	Value any
	// Stack is that of the goroutine which panicked.
	Stack string
}

// Error gives the value of the panic, without the stack.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Caught calls f. A panic of f becomes its error, a *Panic.
func Caught(f func() error) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *Panic: // of another goroutine, passed on
			err = v
		default:
			err = &Panic{v, string(debug.Stack())}
		}
	}()
	return f()
}
