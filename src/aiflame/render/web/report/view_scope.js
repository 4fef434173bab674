// The view scope.

export const view = {
  name: "scope",
  title: "FlameScope",
  key: "3",
  create() {
    const body = document.createElement("section");
    return { body, show() {} };
  },
};
