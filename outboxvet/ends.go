package outboxvet

import (
	"go/ast"
	"go/types"
	"maps"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/cfg"
)

// ended are the transactions that have been committed or rolled back on every path that
// leads to a place.
type ended map[types.Object]bool

// checkEnds reports enqueues in transactions that have ended, and autocommits beside ones
// that have not, in the body of one function.
func checkEnds(pass *analysis.Pass, fn *ast.FuncType, graph *cfg.CFG) {
	if graph == nil {
		return
	}
	f := flow{pass: pass, scope: pass.TypesInfo.Scopes[fn]}
	for block, state := range f.solve(graph) {
		f.step(block, state, true)
	}
}

type flow struct {
	pass  *analysis.Pass
	scope *types.Scope // of the function
}

// solve returns what has ended at the beginning of every block that can be reached.
// Sets only shrink as more paths to a block are known, so it comes to an end.
func (f *flow) solve(graph *cfg.CFG) map[*cfg.Block]ended {
	at := map[*cfg.Block]ended{graph.Blocks[0]: {}}
	work := []*cfg.Block{graph.Blocks[0]}
	for len(work) > 0 {
		block := work[0]
		work = work[1:]
		out := f.step(block, at[block], false)
		for _, next := range block.Succs {
			known, seen := at[next]
			met := out
			if seen {
				met = both(known, out)
			}
			if !seen || len(met) < len(known) {
				at[next] = met
				work = append(work, next)
			}
		}
	}
	return at
}

func both(a, b ended) ended {
	met := maps.Clone(a)
	maps.DeleteFunc(met, func(tx types.Object, _ bool) bool { return !b[tx] })
	return met
}

// step goes through a block and returns what has ended after it.
func (f *flow) step(block *cfg.Block, state ended, report bool) ended {
	state = maps.Clone(state)
	for _, node := range block.Nodes {
		f.visit(node, state, report)
	}
	return state
}

func (f *flow) visit(node ast.Node, state ended, report bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.DeferStmt, *ast.GoStmt:
			return false // runs at another time
		case *ast.AssignStmt:
			for _, value := range n.Rhs {
				f.visit(value, state, report)
			}
			for _, target := range n.Lhs {
				if id, ok := target.(*ast.Ident); ok {
					delete(state, f.pass.TypesInfo.ObjectOf(id)) // another transaction
				}
			}
			return false
		case *ast.CallExpr:
			for _, arg := range n.Args {
				f.visit(arg, state, report)
			}
			f.call(n, state, report)
			f.visit(n.Fun, state, report)
			return false
		}
		return true
	})
}

func (f *flow) call(call *ast.CallExpr, state ended, report bool) {
	if tx := f.ends(call); tx != nil {
		state[tx] = true
		return
	}
	fn := enqueue(f.pass.TypesInfo, call)
	if fn == nil || !report {
		return
	}
	for _, arg := range call.Args {
		if tx := f.variable(arg); tx != nil && state[tx] {
			f.pass.Reportf(call.Pos(), "%s after %s was committed or rolled back: the event is not part of it", fn.Name(), tx.Name())
		}
	}
	if fn.Name() == "EnqueueAutocommit" {
		if tx := f.open(call, state); tx != nil {
			f.pass.Reportf(call.Pos(), "EnqueueAutocommit while %s is open: the event stays if %s is rolled back; use Enqueue, or end %s first",
				tx.Name(), tx.Name(), tx.Name())
		}
	}
}

// ends returns the transaction that a call commits or rolls back.
func (f *flow) ends(call *ast.CallExpr) types.Object {
	method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "Commit" && method.Sel.Name != "Rollback" {
		return nil
	}
	return f.variable(method.X)
}

// variable returns the variable of a function that e is.
func (f *flow) variable(e ast.Expr) types.Object {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, ok := f.pass.TypesInfo.ObjectOf(id).(*types.Var)
	if !ok || v.IsField() || v.Parent() == f.pass.Pkg.Scope() {
		return nil
	}
	return v
}

// open returns a transaction of this function that is in scope and has not ended.
func (f *flow) open(call *ast.CallExpr, state ended) types.Object {
	for s := f.pass.Pkg.Scope().Innermost(call.Pos()); s != nil; s = s.Parent() {
		for _, name := range s.Names() {
			v, ok := s.Lookup(name).(*types.Var)
			if ok && v.Pos() < call.Pos() && !state[v] && isTransaction(v.Type()) {
				return v
			}
		}
		if s == f.scope {
			return nil
		}
	}
	return nil
}

// isTransaction recognises transactions of SQL by what they can do; that there are others,
// such as those of a key-value store, is no reason to report anything.
func isTransaction(t types.Type) bool {
	return hasMethod(t, "Commit") && hasMethod(t, "Rollback") && (hasMethod(t, "ExecContext") || takesContext(t, "Exec"))
}

func hasMethod(t types.Type, name string) bool { return method(t, name) != nil }

func method(t types.Type, name string) *types.Func {
	obj, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
	fn, _ := obj.(*types.Func)
	return fn
}

func takesContext(t types.Type, name string) bool {
	fn := method(t, name)
	if fn == nil || fn.Signature().Params().Len() == 0 {
		return false
	}
	return fn.Signature().Params().At(0).Type().String() == "context.Context"
}
