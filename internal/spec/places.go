package spec

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// Places are where outputs of a job may come. They are found once, as each look follows the
// links on the way.
type Places []outputPlace

// outputPlace is one of them, element by element, of an output that goes to a directory.
type outputPlace struct {
	to       string
	elements []string
}

// Places returns those of all outputs.
func (j *Job) Places() Places {
	var all Places
	for _, o := range j.Outputs {
		for _, elements := range j.placesOf(o) {
			all = append(all, outputPlace{o.To, elements})
		}
	}
	return all
}

// Collision returns a directory in which outputs of two jobs may have one name, or be one
// within the other; "": there is none. It may report too much, as the names that patterns
// match are not known, and never too little.
func (p Places) Collision(others Places) string {
	for _, own := range p {
		for _, other := range others {
			if overlap(own.elements, other.elements) {
				return own.to
			}
		}
	}
	return ""
}

// PlaceIndex finds which of many jobs has outputs that may collide with those of another,
// without a look at each of them. The zero value is empty.
type PlaceIndex struct{ root placeNode }

// placeNode has what is known of the places that begin with the elements up to it.
type placeNode struct {
	ends     bool // a place ends here, of the job
	job      int
	to       string
	plain    map[string]*placeNode // by elements that match just one name
	patterns map[string]*placeNode // by others
}

// Empty reports whether no place was added.
func (x *PlaceIndex) Empty() bool { return !x.root.ends && len(x.root.plain)+len(x.root.patterns) == 0 }

// Add adds the places of a job.
func (x *PlaceIndex) Add(p Places, job int) {
	for _, o := range p {
		n := &x.root
		for _, element := range o.elements {
			n = n.below(element)
		}
		n.ends, n.job, n.to = true, job, o.to
	}
}

func (n *placeNode) below(element string) *placeNode {
	at := &n.plain
	if isPattern(element) {
		at = &n.patterns
	}
	if *at == nil {
		*at = map[string]*placeNode{}
	}
	if (*at)[element] == nil {
		(*at)[element] = &placeNode{}
	}
	return (*at)[element]
}

// Find returns a job that was added whose outputs may collide with those at some places, and
// the directory of the latter, as Places.Collision; -1 and "": there is none.
func (x *PlaceIndex) Find(p Places) (job int, to string) {
	for _, o := range p {
		if n := x.root.collision(o.elements); n != nil {
			return n.job, o.to
		}
	}
	return -1, ""
}

// collision returns the end of a place below a node that elements may collide with.
func (n *placeNode) collision(elements []string) *placeNode {
	if n.ends {
		return n
	}
	if len(elements) == 0 { // what is below is within it
		for _, next := range n.all() {
			if end := next.collision(nil); end != nil {
				return end
			}
		}
		return nil
	}
	if !isPattern(elements[0]) {
		if next := n.plain[elements[0]]; next != nil {
			if end := next.collision(elements[1:]); end != nil {
				return end
			}
		}
		return firstCollision(n.patterns, elements)
	}
	if end := firstCollision(n.plain, elements); end != nil {
		return end
	}
	return firstCollision(n.patterns, elements)
}

func firstCollision(nodes map[string]*placeNode, elements []string) *placeNode {
	for name, next := range nodes {
		if !meet(name, elements[0]) {
			continue
		}
		if end := next.collision(elements[1:]); end != nil {
			return end
		}
	}
	return nil
}

func (n *placeNode) all() []*placeNode {
	return slices.AppendSeq(slices.Collect(maps.Values(n.plain)), maps.Values(n.patterns))
}

// patternSigns are those of an element that may match several names, or one that it is not.
const patternSigns = `\*?[`

func isPattern(element string) bool { return strings.ContainsAny(element, patternSigns) }

// Collision is that of the places of two jobs.
func (j *Job) Collision(other *Job) string { return j.Places().Collision(other.Places()) }

// placesOf returns where matches of an output may come, element by element: under their
// own names, or where those are taken, with the directories before them.
func (j *Job) placesOf(o Output) [][]string {
	at := elementsOf(o.To)
	places := [][]string{append(at[:len(at):len(at)], path.Base(o.From))}
	rest, is := strings.CutPrefix(o.From, strings.TrimSuffix(j.Volume.Path, "/")+"/")
	if is && strings.Contains(rest, "/") {
		places = append(places, append(at[:len(at):len(at)], strings.Split(rest, "/")...))
	}
	return places
}

// elementsOf are those of the place of an output, as patterns.
func elementsOf(to string) []string {
	if r, _, err := ParseRemoteDir(to); err == nil {
		at := []string{literal("s3:" + r.Endpoint), literal(r.Bucket)}
		if r.Key != "" {
			at = append(at, strings.Split(literal(r.Key), "/")...)
		}
		return at
	}
	if to = realPath(to); to == "/" {
		return nil
	}
	return strings.Split(strings.Trim(literal(to), "/"), "/")
}

// literal is a pattern that matches just a text.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}

// overlap reports whether something of one place may be at the other, or within it.
func overlap(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if !meet(a[i], b[i]) {
			return false
		}
	}
	return true
}

// meet reports whether two patterns may match one name. A class counts as any character.
func meet(a, b string) bool {
	if a == b || !isPattern(a) && !isPattern(b) {
		return a == b
	}
	p, q := signs(a), signs(b)
	// can[k] reports whether what is left of p meets what is left of q from k on.
	can := make([]bool, len(q)+1)
	for i := len(p); i >= 0; i-- {
		next := can
		can = make([]bool, len(q)+1)
		for k := len(q); k >= 0; k-- {
			switch {
			case i < len(p) && p[i] == manyRunes:
				can[k] = next[k] || k < len(q) && can[k+1]
			case k < len(q) && q[k] == manyRunes:
				can[k] = can[k+1] || i < len(p) && next[k]
			case i == len(p) || k == len(q):
				can[k] = i == len(p) && k == len(q)
			default:
				can[k] = next[k+1] && (p[i] == q[k] || p[i] == oneRune || q[k] == oneRune)
			}
		}
	}
	return can[0]
}

// Wildcards among the signs of a pattern.
const (
	oneRune   rune = -1
	manyRunes rune = -2
)

// signs are the characters of a pattern, with wildcards.
func signs(pattern string) []rune {
	var list []rune
	text := []rune(pattern)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '*':
			list = append(list, manyRunes)
		case c == '?':
			list = append(list, oneRune)
		case c == '\\' && i+1 < len(text):
			i++
			list = append(list, text[i])
		case c == '[':
			for i++; i < len(text) && text[i] != ']'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			list = append(list, oneRune)
		default:
			list = append(list, c)
		}
	}
	return list
}
