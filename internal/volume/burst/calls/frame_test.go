package calls

import (
	"bytes"
	"reflect"
	"testing"
)

// TestFrames reads back what was encoded, and refuses what is cut off.
func TestFrames(t *testing.T) {
	q := &Request{ID: 1, Op: Rename, Flags: Exclusive, Valid: SetMode, Ino: 2, ToDir: 3, Mode: 4, UID: 5, GID: 6, Off: -7, Size: 8, Mtime: 9, Owner: 10, PID: 11, Name: "a", ToName: "b", Data: []byte("data")}
	if got, err := ReadRequest(bytes.NewReader(q.Encode())); err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("%+v, %v", got, err)
	}
	p := &Reply{ID: 1, Errno: 2, Attr: Attr{Ino: 3, Mode: 4, UID: 5, GID: 6, Nlink: 1, Size: 7, Mtime: 8, Ctime: 9}, Entries: []Entry{{Name: "x", Attr: Attr{Ino: 10}}}, Data: []byte("y"), Total: 11, Free: 12, Lock: HeldLock{Type: 1, Start: 2, End: 3, PID: 4}}
	if got, err := ReadReply(bytes.NewReader(p.Encode())); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzFrames gives any bytes to both readers: they return, and allocate little.
func FuzzFrames(f *testing.F) {
	f.Add((&Request{Name: "a"}).Encode())
	f.Add((&Reply{Entries: []Entry{{Name: "x"}}}).Encode())
	f.Add([]byte{0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		ReadRequest(bytes.NewReader(raw)) //nolint:errcheck // it must return
		ReadReply(bytes.NewReader(raw))   //nolint:errcheck // it must return
	})
}
