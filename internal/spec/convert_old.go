package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// oldFile is the original launcher's JSON (github.com/lanl/BEE, bee-launcher).
type oldFile struct {
	Task   map[string]any            `json:"task_conf"`
	Docker map[string]any            `json:"docker_conf"`
	Exec   map[string]map[string]any `json:"exec_env_conf"`
}

// readOld reads the old file, and gives a note for each part that is none of its.
func readOld(file string, data []byte) (oldFile, []string, error) {
	r := newReport(file, data)
	var old oldFile
	var parts map[string]any
	err := json.Unmarshal(data, &old)
	switch wrong, syntax := (*json.UnmarshalTypeError)(nil), (*json.SyntaxError)(nil); {
	case errors.As(err, &syntax):
		hint := ""
		if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
			hint = "this is no Beefile of the original BEE; `bee init --from FILE` converts batch scripts, compose files and others"
		}
		r.problem(place(data, syntax.Offset), hint, "not valid JSON: %v", syntax)
	case errors.As(err, &wrong):
		r.problem(place(data, wrong.Offset), "", "%sa JSON object is wanted, this is a %s", prefix(wrong.Field), wrong.Value)
	case old.Task == nil:
		r.problem(nil, "it has to be the JSON file of the original BEE launcher", "it has no task_conf")
	default:
		err = json.Unmarshal(data, &parts)
	}
	if len(r.problems) > 0 {
		err = asError(r.problems)
	}
	if err != nil {
		return old, nil, err
	}
	var notes []string
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		if !slices.Contains([]string{"task_conf", "docker_conf", "exec_env_conf"}, key) {
			notes = append(notes, fmt.Sprintf("%s is not known and was left out.", key))
		}
	}
	return old, notes, nil
}

// place is where the byte before an offset is.
func place(data []byte, offset int64) *token.Token {
	before := data[:max(min(int(offset), len(data))-1, 0)]
	line := bytes.Count(before, []byte("\n"))
	column := len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:])))
	return &token.Token{Position: &token.Position{Line: line + 1, Column: column + 1}}
}

// list gives the scripts of a list, each with its keys; what is none is noted.
func (c *converter) list(key string, known ...string) []map[string]any {
	at := "task_conf." + key
	given, ok := c.old.Task[key].([]any)
	if !ok && c.old.Task[key] != nil {
		c.note("%s is no list and was left out.", at)
	}
	var scripts []map[string]any
	for i, element := range given {
		s, _ := element.(map[string]any)
		if at := fmt.Sprintf("%s[%d]", key, i); textOf(s["script"]) == "" {
			c.note("%s names no script and was left out.", at)
		} else {
			c.unknownIn(at, s, append(known, "script", "local_port_fwd", "remote_port_fwd")...)
			scripts = append(scripts, s)
		}
	}
	return scripts
}

// number reads a number, which the old files often have as text; what is none is
// noted.
func (c *converter) number(at string, section map[string]any, key string) int {
	v, given := section[key]
	n, err := numberOf(v)
	if given && v != "" && err != nil {
		c.note("%s.%s %v is no number and was left out.", at, key, v)
	}
	return n
}

// truth reports whether a switch of the old file is on.
func truth(v any) bool { return strings.EqualFold(textOf(v), "true") }
