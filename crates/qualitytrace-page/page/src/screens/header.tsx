/** The head of every screen: where it is, its title, and what can be done. */
import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";

export function Header(props: {
  path?: { name: string; to: string }[];
  title: ReactNode;
  state?: ReactNode;
  children?: ReactNode;
}) {
  const { path = [], title, state, children } = props;
  return (
    <header className="head">
      {path.map((step) => (
        <Fragment key={step.to}>
          <Link to={step.to} className="crumb">
            {step.name}
          </Link>
          <span className="faint" aria-hidden="true">
            ›
          </span>
        </Fragment>
      ))}
      <h1>{title}</h1>
      {state}
      <div className="actions">{children}</div>
    </header>
  );
}
