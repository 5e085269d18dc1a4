package fleet

import "container/list"

// line is a waiting line in which the apps take turns. The zero value is empty.
type line struct {
	apps  map[string]*appLine // those that have any
	turns list.List           // of *appLine; whose turn is next is in front
}

// appLine is what waits of one app.
type appLine struct {
	app   string
	dials list.List // of *Dial, in the order that they came in
	turn  *list.Element
}

// place is where a dial stands.
type place struct {
	of *appLine
	at *list.Element
}

func (l *line) push(d *Dial, app string) {
	of := l.apps[app]
	if of == nil {
		of = &appLine{app: app}
		of.turn = l.turns.PushBack(of)
		if l.apps == nil {
			l.apps = map[string]*appLine{}
		}
		l.apps[app] = of
	}
	d.place = place{of, of.dials.PushBack(d)}
}

// pop takes out the first of the app whose turn it is; nil: the line is empty.
func (l *line) pop() *Dial {
	front := l.turns.Front()
	if front == nil {
		return nil
	}
	of := front.Value.(*appLine)
	d := of.dials.Front().Value.(*Dial)
	l.turns.MoveToBack(front)
	l.remove(d)
	return d
}

// remove takes one out and tells whose it is.
func (l *line) remove(d *Dial) (app string) {
	of := d.place.of
	of.dials.Remove(d.place.at)
	if of.dials.Len() == 0 {
		l.turns.Remove(of.turn)
		delete(l.apps, of.app)
	}
	d.place = place{}
	return of.app
}
