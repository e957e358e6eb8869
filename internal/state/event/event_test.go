package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

func TestKindsAreDistinctAndDecode(t *testing.T) {
	seen := map[Kind]bool{}
	for _, f := range All() {
		k := f.Kind()
		if seen[k] || k == "" || strings.Trim(string(k), "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("kind %q of %T", k, f)
		}
		seen[k] = true
		full := reflect.New(reflect.TypeOf(f))
		fill(full.Elem())
		want := full.Elem().Interface().(Fields)
		raw, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := Decode(k, raw); !reflect.DeepEqual(got, want) || Key(got) != Key(want) {
			t.Errorf("%s reads as %#v, want %#v", raw, got, want)
		}
	}
}

// fill sets every field of a value to one that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.String:
		v.SetString("a word")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(3 * time.Second))
	}
}

func TestFieldsAreBounded(t *testing.T) {
	many := make([]Skip, 100)
	for i := range many {
		many[i] = Skip{Site: "s\x1b[31m", Cause: Cause{Kind: "lost", Message: strings.Repeat("é\n", 10_000)}}
	}
	raw, err := Encode(NoSite{Sites: many})
	if err != nil || len(raw) > 4*maxTexts || bytes.ContainsRune(raw, 0x1b) || !json.Valid(raw) {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	f, is := Decode(KindNoSite, raw).(NoSite)
	if !is || len(f.Sites) != MaxList || f.Sites[0].Site != `s\x1b[31m` || len(f.Sites[0].Cause.Message) > MaxText {
		t.Errorf("it reads as %d sites, %q", len(f.Sites), f.Sites[0].Site)
	}
}

func TestUnknownKindsStay(t *testing.T) {
	for name, raw := range map[string]string{"newer": `{"a":1}`, "retry": `{"retry":"many"}`} {
		o, is := Decode(Kind(name), json.RawMessage(raw)).(Other)
		back, err := Encode(o)
		if !is || o.Kind() != Kind(name) || string(back) != raw || err != nil {
			t.Errorf("%s %s became %+v, %s, %v", name, raw, o, back, err)
		}
	}
	if o := Decode("newer", json.RawMessage(`{torn`)); Key(o) != "newer {}" {
		t.Errorf("torn fields became %s", Key(o))
	}
}

func TestSiteCause(t *testing.T) {
	refused := &core.Error{Kind: core.Busy, Op: "use site", Object: "rack", Err: errors.New("it is full"), Remedy: "Wait."}
	for name, c := range map[string]struct {
		err  error
		want Cause
	}{
		"of the site":    {refused, Cause{"busy", "it is full", "Wait."}},
		"of another one": {&core.Error{Kind: core.Lost, Op: "use site", Object: "lab", Err: errors.New("gone")}, Cause{"lost", "use site lab: gone", ""}},
		"plain":          {errors.New("no"), Cause{"permanent", "no", ""}},
	} {
		if got := SiteCause("rack", c.err); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
