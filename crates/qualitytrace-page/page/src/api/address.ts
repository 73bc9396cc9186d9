/** The address that the page is served under: everything is relative to it, so a path prefix needs no setting. */
export const root: URL = new URL(document.baseURI);

/** The root without the slash at its end, as the router wants it. */
export const basePath: string = root.pathname.replace(/\/$/, "");

/** The address of something that the server serves. */
export function address(path: string): string {
  return `${root.origin}${basePath}${path}`;
}
