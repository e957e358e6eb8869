package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validator gives what reports whether a schema accepts a text.
func validator(t *testing.T, which string) func(text string) bool {
	t.Helper()
	raw, err := Schema(which)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(which+".json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(which + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) bool {
		var v any
		if yaml.Unmarshal([]byte(text), &v) != nil {
			return false
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return false
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		return err == nil && compiled.Validate(doc) == nil
	}
}

// TestSchemaAgreesWithTheParser holds both to the same good and bad files.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	beefile, sites := validator(t, "beefile"), validator(t, "sites")
	files, err := filepath.Glob("../../examples/*/job.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := LoadJob(f); err != nil || !beefile(string(raw)) {
			t.Errorf("%s: parser says %v, schema %v", f, err, beefile(string(raw)))
		}
	}
	if files, err = filepath.Glob("../../examples/*.yaml"); err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := LoadSites(f); err != nil || !sites(string(raw)) {
			t.Errorf("%s: parser says %v, schema %v", f, err, sites(string(raw)))
		}
	}
	for _, good := range []string{
		"x-common: {a: 1}\nimage: i\nrun: x\n", "image: i\nvolume: /v\n", "image: i\nvm: true\nvolume: dataimage\n", "image: i\nvm: true\nvolume: {kind: dataimage, from: ./x}\n", "image: i\nvm: {memory: 1.5G, mtu: 9000}\n", "image: i\nvolume: {kind: burst, remote: ./far, rate: 1gbit, expect: {write: 1G, every: 10m, reuse: 0.5}}\n",
		"build: {debian: bookworm/updates, env: {A_1: x}}\n", "image: i\nrdma: none\n", "image: i\nrdma: {device: auto}\n", "image: i\nrdma: {}\n", "image: i\nvm: true\nrdma: soft\n", "image: i\nvm: {per_host: 2}\ncheckpoint: {mode: app}\nrdma: {device: bee, memory: 1G}\n", "image: i\nvm: auto\nrdma: bee\n", "image: i\nvm: true\nrdma: {device: host, pci: '0000:81:00.1'}\n", "image: i\nrdma: host\nvm: auto\n", "image: i\nplatform: linux/arm/v7\nname: 7\ntimeout: 1h30m\n",
	} {
		if _, err := ParseJob("f", []byte(good), "/d"); err != nil || !beefile(good) {
			t.Errorf("%s: parser says %v, schema %v", good, err, beefile(good))
		}
	}
	for _, name := range []string{
		"unknown key with a near one", "wrong type of list", "unknown key inside", "no image", "both", "not a mapping", "impossible number",
		"relative volume", "bad variable", "bad runtime", "bad duration", "negative duration", "types and values at once", "too large", "digits as text", "platform of no container",
		"unknown architecture", "suite of no name", "sizes that Go knows", "merge of a list",
	} {
		if beefile(bad()[name]) {
			t.Errorf("the schema accepts what the parser refuses: %s", name)
		}
	}
	if !sites("sites: [{name: a, provider: ssh, hosts: [n1]}]") || sites("sites: [{name: a, provider: ssh, host: n1}]") {
		t.Error("the sites schema disagrees with the parser")
	}
}

// fileWith writes a file with a value at a path without indexes, such as
// "sites[].slots".
func fileWith(path string, value any) (which, text string) {
	which, file := "beefile", map[string]any{"image": "a"}
	into := file
	if key, is := strings.CutPrefix(path, "sites[]."); is {
		into, path = map[string]any{"name": "a", "provider": "local"}, key
		which, file = "sites", map[string]any{"sites": []any{into}}
		for inner, rest, inside := strings.Cut(path, "."); inside; inner, rest, inside = strings.Cut(path, ".") {
			if _, is := into["provider"]; is && inner != "price" { // a mapping of its provider
				into["provider"] = inner
			}
			next := map[string]any{}
			into[inner] = next
			into, path = next, rest
		}
	} else if parent, key, inside := strings.Cut(path, "."); inside {
		into, path = map[string]any{}, key
		file[parent] = into
		if parent == "build" { // in place of an image
			delete(file, "image")
			into["context"] = "."
		}
	}
	into[path] = value
	raw, err := json.Marshal(file) // which is YAML, too
	if err != nil {
		panic(err)
	}
	return which, string(raw)
}

// TestSchemaHasTheChoicesOfTheChecks tries every word, and the numbers at every
// limit, with both.
func TestSchemaHasTheChoicesOfTheChecks(t *testing.T) {
	schemas := map[string]func(string) bool{"beefile": validator(t, "beefile"), "sites": validator(t, "sites")}
	try := func(path string, value any, good bool, problem string) {
		which, text := fileWith(path, value)
		var err error
		if which == "sites" {
			_, err = ParseSites("f", []byte(text))
		} else {
			_, err = ParseJob("f", []byte(text), "/d")
		}
		// Other things may be wrong: words and numbers have to fit together.
		if refused := err != nil && strings.Contains(err.Error(), problem); refused == good || schemas[which](text) != good {
			t.Errorf("%s: want good: %v; the schema says %v, the checks say %v", text, good, schemas[which](text), err)
		}
	}
	for path, choice := range words() {
		for _, word := range append([]string{"nonsense"}, choice...) {
			try(path, word, word != "nonsense", "is not known")
		}
	}
	for path, l := range numbers() {
		for n, good := range map[float64]bool{l.least - 1: false, l.least: true, l.most: true, l.most + 1: false} {
			if !math.IsInf(n, 1) {
				try(path, int(n), good, fmt.Sprintf(": %v cannot be", n))
			}
		}
	}
}

// TestSchemaTellsWhatKeysMean looks for the documents' words at each key that has a
// row in their tables; those of lists' elements and of secrets have none.
func TestSchemaTellsWhatKeysMean(t *testing.T) {
	for which, without := range map[string]string{"beefile": " inputs[] outputs[] secrets[] vm.disks[] build.copy[] ", "sites": "  "} {
		schema, err := Schema(which)
		if err != nil {
			t.Fatal(err)
		}
		var walk func(at string, s map[string]any)
		walk = func(at string, s map[string]any) {
			forms, _ := s["oneOf"].([]any)
			for _, form := range forms {
				walk(at, form.(map[string]any))
			}
			for _, elements := range []string{"items", "additionalProperties"} {
				if e, ok := s[elements].(map[string]any); ok {
					walk(at+"[]", e)
				}
			}
			properties, _ := s["properties"].(map[string]any)
			for key, p := range properties {
				if says, _ := p.(map[string]any)["description"].(string); says == "" && !strings.Contains(without, " "+at+" ") {
					t.Errorf("%s: nothing is said of %s", which, join(at, key))
				}
				walk(join(at, key), p.(map[string]any))
			}
		}
		walk("", schema)
	}
	schema, err := Schema("sites")
	if err != nil {
		t.Fatal(err)
	}
	site := schema["properties"].(map[string]any)["sites"].(map[string]any)["items"].(map[string]any)["properties"].(map[string]any)
	testkit.Wording(t, "slot", fmt.Sprint(site["slot"].(map[string]any)["description"]))
}
