// Package outboxvet finds uses of the outbox that compile and lose events.
//
// It reports an ignored error of an enqueue, an enqueue in a transaction that has ended,
// and EnqueueAutocommit while a transaction is open. It looks at one function at a time and
// reports only what holds on every path through it: what it reports is wrong, and what it
// does not report may be wrong all the same.
//
// The command is cmd/outboxvet; run it alone or with go vet -vettool.
package outboxvet

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Analyzer makes the checks.
var Analyzer = &analysis.Analyzer{
	Name:     "outboxvet",
	Doc:      "report uses of the outbox that lose events",
	URL:      "https://pkg.go.dev/github.com/go-outbox/outbox/outboxvet",
	Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	Run:      run,
}

func run(pass *analysis.Pass) (any, error) {
	if !usesOutbox(pass.Pkg) {
		return nil, nil
	}
	graphs := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Preorder([]ast.Node{
		(*ast.ExprStmt)(nil), (*ast.GoStmt)(nil), (*ast.DeferStmt)(nil), (*ast.AssignStmt)(nil),
		(*ast.FuncDecl)(nil), (*ast.FuncLit)(nil),
	}, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				checkEnds(pass, n.Type, graphs.FuncDecl(n))
			}
		case *ast.FuncLit:
			checkEnds(pass, n.Type, graphs.FuncLit(n))
		default:
			checkIgnored(pass, n)
		}
	})
	return nil, nil
}

const outboxPath = "github.com/go-outbox/outbox"

// usesOutbox spares packages that cannot have a message.
func usesOutbox(pkg *types.Package) bool {
	for _, imported := range pkg.Imports() {
		if imported.Path() == outboxPath || strings.HasPrefix(imported.Path(), outboxPath+"/") {
			return true
		}
	}
	return pkg.Path() == outboxPath
}

// checkIgnored reports a statement that drops the error of an enqueue.
func checkIgnored(pass *analysis.Pass, n ast.Node) {
	var call ast.Expr
	switch n := n.(type) {
	case *ast.ExprStmt:
		call = n.X
	case *ast.GoStmt:
		call = n.Call
	case *ast.DeferStmt:
		call = n.Call
	case *ast.AssignStmt:
		if len(n.Rhs) == 1 && isBlank(n.Lhs[len(n.Lhs)-1]) {
			call = n.Rhs[0]
		}
	}
	if call == nil {
		return
	}
	if fn := enqueue(pass.TypesInfo, call); fn != nil {
		pass.Reportf(call.Pos(), "the error of %s is ignored: the event may not have been written", fn.Name())
	}
}

func isBlank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}

// enqueue returns the function that e calls if it enqueues: it says so in its name, takes a
// message or several, and may fail. So the methods of all stores count, and what an
// application puts around them.
func enqueue(info *types.Info, e ast.Expr) *types.Func {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil
	}
	fn, ok := typeutil.Callee(info, call).(*types.Func)
	if !ok || !strings.Contains(strings.ToLower(fn.Name()), "enqueue") {
		return nil
	}
	signature := fn.Signature()
	if !failing(signature) {
		return nil
	}
	for param := range signature.Params().Variables() {
		if isMessage(param.Type()) {
			return fn
		}
	}
	return nil
}

func failing(s *types.Signature) bool {
	n := s.Results().Len()
	return n > 0 && types.Identical(s.Results().At(n-1).Type(), types.Universe.Lookup("error").Type())
}

func isMessage(t types.Type) bool {
	switch u := types.Unalias(t).(type) {
	case *types.Slice:
		return isMessage(u.Elem())
	case *types.Pointer:
		return isMessage(u.Elem())
	case *types.Named:
		obj := u.Obj()
		return obj.Name() == "Message" && obj.Pkg() != nil && obj.Pkg().Path() == outboxPath
	}
	return false
}
