package flow

// aFlow ends when its path has served so many bytes to each of its flows.
type aFlow struct {
	end      float64
	sequence int
	done     func()
}

type flows []aFlow

func (f flows) Len() int { return len(f) }
func (f flows) Less(i, j int) bool {
	return f[i].end < f[j].end || f[i].end == f[j].end && f[i].sequence < f[j].sequence
}
func (f flows) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flows) Push(x any)   { *f = append(*f, x.(aFlow)) }
func (f *flows) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	(*f)[last] = aFlow{}
	*f = (*f)[:last]
	return x
}

type timer struct {
	at       float64
	sequence int
	do       func()
}

type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].sequence < t[j].sequence
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = timer{}
	*t = (*t)[:last]
	return x
}

// queue has the paths with flows, by when the next one ends.
type queue []*Path

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].next < q[j].next || q[i].next == q[j].next && q[i].order < q[j].order
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	p := x.(*Path)
	p.index = len(*q)
	*q = append(*q, p)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	p.index = -1
	return p
}

// step is the level at which a resource is full.
type step struct {
	level    float64
	resource Resource
}

type steps []step

func (s steps) Len() int { return len(s) }
func (s steps) Less(i, j int) bool {
	return s[i].level < s[j].level || s[i].level == s[j].level && s[i].resource < s[j].resource
}
func (s steps) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *steps) Push(x any)   { *s = append(*s, x.(step)) }
func (s *steps) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}
