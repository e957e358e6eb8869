package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestADirectoryOfResults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	j, err := Create(dir, Plan{Study: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(Row{Environment: "a", Status: OK}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !core.IsKind(err, core.Busy) {
		t.Errorf("a second process that appends: %v, expected kind Busy", err)
	}
	if err := j.MarkBusy(); err != nil {
		t.Error(err)
	}
	if p, rows, err := Read(dir); err != nil || p.Study != "s" || !p.Busy || len(rows) != 1 {
		t.Errorf("a reader beside it: %+v, %d rows, %v", p, len(rows), err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, Plan{}); !core.IsKind(err, core.Invalid) {
		t.Errorf("another study into the directory: %v, expected kind Invalid", err)
	}
	if _, _, err := Read(t.TempDir()); !core.IsKind(err, core.NotFound) {
		t.Errorf("an empty directory: %v, expected kind NotFound", err)
	}
}

func TestOnlyATornLastLineIsDropped(t *testing.T) {
	dir := t.TempDir()
	j, err := Create(dir, Plan{})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, RowsFile)
	for text, want := range map[string]int{
		"":                                      0,
		`{"schema":1,"environment":"a"`:         0,
		"{\"schema\":1}\n{\"schema\"":           1,
		"{\"schema\":1}\n{\"schema\":1}\n":      2,
		"{\"schema\":1}\nno JSON\n{\"sche":      -1,
		"{\"schema\":1}\n\n{\"schema\":1}\n{\"": 2,
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := Open(dir)
		if want < 0 {
			if !core.IsKind(err, core.Invalid) {
				t.Errorf("%q: %v, expected kind Invalid", text, err)
			}
			continue
		}
		if err != nil || len(j.Rows) != want {
			t.Fatalf("%q: %d rows, %v; expected %d", text, len(j.Rows), err, want)
		}
		if err := j.Append(Row{Environment: "next"}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if _, rows, err := Read(dir); err != nil || len(rows) != want+1 || rows[want].Environment != "next" {
			t.Errorf("%q and a row: %d rows, %v", text, len(rows), err)
		}
	}
}

// TestRowsAreReadInTheirOrder: of a journal that several goroutines read, and the first line that
// is wrong is named.
func TestRowsAreReadInTheirOrder(t *testing.T) {
	var text []byte
	for i := range 3*share + 7 {
		text = fmt.Appendf(text, "{\"block\":%d}\n", i)
	}
	rows, err := rowsIn(text)
	if err != nil || len(rows) != 3*share+7 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i := range rows {
		if rows[i].Block != i {
			t.Fatalf("row %d is %d", i, rows[i].Block)
		}
	}
	if _, err := rowsIn(append(text, "no JSON\nnor this\n"...)); err == nil || !strings.Contains(err.Error(), fmt.Sprint("line ", 3*share+8)) {
		t.Errorf("%v, expected that line", err)
	}
}

// TestEqualProgramsAreDecodedOnce compares rows with what encoding/json decodes of their lines.
func TestEqualProgramsAreDecodedOnce(t *testing.T) {
	lines := []string{
		`{"block":1,"programs":{"/bin/a":"1","/lib/<b>":"2"},"metrics":{"x":[{"value":2.5}]}}`,
		`{"block":2,"programs":{"/bin/a":"1","/lib/<b>":"2"},"memory_limit":0}`,
		`{"block":3,"programs":{"/bin/a":"3"},"flags":["f"]}`,
		`{"block":4}`, `{"block":5,"programs":null}`, `{"block":6,"programs":{}}`,
	}
	got, err := rowsIn([]byte(strings.Join(lines, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		var want Row
		if err := json.Unmarshal([]byte(line), &want); err != nil || !reflect.DeepEqual(got[i], want) {
			t.Errorf("%s is %+v, expected %+v (%v)", line, got[i], want, err)
		}
	}
	if _, err := rowsIn([]byte(`{"programs":{"/bin/a":1}}` + "\n")); err == nil {
		t.Error("a digest that is no text is accepted")
	}
}

// FuzzRead reads any plan, rows and hosts. What is read is written and read again as the same.
func FuzzRead(f *testing.F) {
	f.Add("{}", "{\"schema\":1}\n{\"status\":\"ok\",\"programs\":{\"/a\":\"1\"},\"metrics\":{\"x\":[{\"value\":1}]}}\n{\"torn", "{}")
	f.Add(`{"schema":2}`, "no JSON\n", "[]")
	f.Add(`{"points":[{"id":"a","environments":["b"]}]}`, "\n\nnull\n{\"programs\":null,\"begin\":\"2026-01-01T00:00:00Z\"}\n", `{"schema":1,"exercised":[{}]}`)
	f.Fuzz(func(t *testing.T, plan, rows, hosts string) {
		dir := t.TempDir()
		for name, text := range map[string]string{PlanFile: plan, RowsFile: rows, HostsFile: hosts} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if h, err := ReadHosts(dir); err == nil {
			if err := WriteHosts(dir, h); err != nil {
				t.Errorf("hosts that were read cannot be written: %v", err)
			}
		}
		_, all, err := Read(dir)
		if err != nil {
			return
		}
		j, err := Open(dir)
		if err == nil {
			err = errors.Join(j.Append(Row{Environment: "last"}), j.Close())
		}
		if err != nil {
			t.Fatalf("what can be read cannot be continued: %v", err)
		}
		if _, again, err := Read(dir); err != nil || len(again) != len(all)+1 || again[len(all)].Environment != "last" {
			t.Fatalf("%d rows and one more are %d, %v", len(all), len(again), err)
		}
	})
}
