package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/goccy/go-yaml"
)

// Beefile returns the text of a Beefile that describes a complete job. Its local paths are
// absolute, so that it means the same in any directory.
func (j *Job) Beefile() ([]byte, error) {
	if len(j.Pack) > 0 { // no Beefile has them
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "write the Beefile of", Object: j.Name, Err: errors.New("its task is cases of an array"),
			Remedy: "Name the array, as in `bee retry ARRAY`, or one of its cases.",
		}
	}
	job := *j
	job.Image = ImageFrom(j.Dir, j.Image)
	if j.VM != nil {
		vm := *j.VM
		vm.Image = ImageFrom(j.Dir, vm.Image)
		job.VM = &vm
	}
	return job.Text()
}

// Text returns the text of a Beefile that describes a job, whose paths are as they are in
// the job.
func (j *Job) Text() ([]byte, error) {
	job := *j
	if job.Nodes == 1 {
		job.Nodes = 0
	}
	if reflect.DeepEqual(job.Volume, Volume{Path: defaultVolume}) {
		job.Volume = Volume{}
	}
	form, _ := mappingOf(reflect.ValueOf(job))
	text, err := yaml.MarshalWithOptions(form, yaml.UseLiteralStyleIfMultiline(true), yaml.IndentSequence(true))
	if err == nil && j.reads(text) {
		return text, nil
	}
	// JSON is YAML, too, and quotes all that the plain forms of YAML would change.
	if text, err = yaml.MarshalWithOptions(form, yaml.JSON()); err != nil {
		return nil, fmt.Errorf("write the Beefile of %q: %w", j.Name, err)
	}
	return text, nil
}

// Key is a key of a Beefile with its value in one line.
type Key struct{ Name, Value string }

// Keys returns the keys of a Beefile that describes a job, without those that are not set.
func (j *Job) Keys() ([]Key, error) {
	form, _ := mappingOf(reflect.ValueOf(*j))
	keys := make([]Key, 0, len(form))
	for _, item := range form {
		value, err := yaml.MarshalWithOptions(item.Value, yaml.JSON())
		if err != nil {
			return nil, fmt.Errorf("write key %v of %q: %w", item.Key, j.Name, err)
		}
		keys = append(keys, Key{fmt.Sprint(item.Key), strings.TrimSpace(string(value))})
	}
	return keys, nil
}

// reads reports whether a Beefile's text describes the job.
func (j *Job) reads(text []byte) bool {
	t := parseDraft("Beefile", text, j.Dir)
	a, aerr := json.Marshal(t.Job)
	b, berr := json.Marshal(j)
	return len(t.report.problems) == 0 && aerr == nil && berr == nil && string(a) == string(b)
}

// Text returns a site as one line of a sites file.
func (s Site) Text() (string, error) {
	form, _ := mappingOf(reflect.ValueOf(s))
	raw, err := yaml.MarshalWithOptions(form, yaml.Flow(true))
	if err != nil {
		return "", fmt.Errorf("write site %q: %w", s.Name, err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// mappingOf is a struct as the mapping that a user would write, without what is not set.
func mappingOf(v reflect.Value) (yaml.MapSlice, bool) {
	form := yaml.MapSlice{}
	for i := range v.NumField() {
		if key := keyOf(v.Type().Field(i)); key != "" {
			if value, set := formOf(v.Field(i)); set {
				form = append(form, yaml.MapItem{Key: key, Value: value})
			}
		}
	}
	return form, len(form) > 0
}

// formOf is a value as a user would write it, and whether it is set.
func formOf(v reflect.Value) (form any, set bool) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, false
		}
		form, _ = formOf(v.Elem())
		return form, true
	}
	set = !v.IsZero()
	switch x := v.Interface().(type) {
	case Command:
		if x.Shell != "" {
			return x.Shell, true
		}
		return append([]string{}, x.Argv...), true
	case Input:
		if x.Earlier != (RunPath{}) {
			from, _ := mappingOf(reflect.ValueOf(x.Earlier))
			return yaml.MapSlice{{Key: "from", Value: from}, {Key: "to", Value: x.To}}, true
		}
	case VM:
		if form, is := map[string]any{VMAlways: true, VMNever: false, VMAuto: VMAuto}[x.When]; is && reflect.DeepEqual(x, VM{When: x.When}) {
			return form, true
		}
	case Hosts:
		if len(x.Patterns) > 0 {
			return x.Patterns, true
		}
		return x.Count, x.Count != 0
	case GPUs:
		if x == AllGPUs {
			return "all", true
		}
	case RDMA:
		if x == (RDMA{Device: x.Device}) {
			return x.Device, set
		}
	case Size:
		return sizeText(x), set
	case BitRate:
		return fmt.Sprintf("%dbit", int64(x)), set
	case time.Duration:
		return ShortDuration(x.String()), set
	}
	switch v.Kind() { // a job has no others
	case reflect.Struct:
		return mappingOf(v)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i], _ = formOf(v.Index(i))
		}
		return list, len(list) > 0
	case reflect.Map:
		var list yaml.MapSlice
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			value, _ := formOf(v.MapIndex(key))
			list = append(list, yaml.MapItem{Key: key.String(), Value: value})
		}
		return list, len(list) > 0
	}
	return v.Interface(), set
}

// sizeText is a size in the largest unit of which it is a whole number.
func sizeText(b Size) any {
	units := map[Size]string{1 << 40: "T", 1 << 30: "G", 1 << 20: "M", 1 << 10: "K"}
	for _, unit := range slices.Backward(slices.Sorted(maps.Keys(units))) {
		if b != 0 && b%unit == 0 {
			return fmt.Sprintf("%d%s", b/unit, units[unit])
		}
	}
	return int64(b)
}
